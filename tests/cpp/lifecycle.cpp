// A lock's life with exceptions, spans and the standard's guards. argv[1] is the server's URL.
#include "check.hpp"

#include <cmath>
#include <limits>
#include <shared_mutex>

namespace pl = portalock;

static void errors_are_system_errors(const pl::client &client)
{
    THROWS(invalid, pl::client("http://somewhere"s.substr(0, 3)));
    THROWS(invalid, pl::client("redis://a\0b"s));
    THROWS(invalid, pl::lock(client, ""));
    THROWS(invalid, pl::lock(client, "x", pl::lock_options().label("two\0halves"s)));
    THROWS(invalid, pl::lock(client, "x", pl::lock_options().label(std::string(257, 'x'))));
    THROWS(invalid, pl::lock(client, "x", pl::lock_options().health_check_interval(-1s)));
    THROWS(invalid, pl::lock(client, "x", pl::lock_options().unavailable_timeout(0s).fencing()));
    THROWS(invalid, pl::client("redis://a", pl::client_options().pool_size(1025)));
    THROWS(invalid, pl::client("redis://a", pl::client_options().connect_timeout(0s)));
    CHECK(pl::client_options().pool_size(1025).pool_size(1).status() == pl::errc::invalid);
    CHECK(!pl::client_options().pool_size(1).status());

    try {
        pl::client("redis://127.0.0.1:1").ping(5s);
        CHECK(!"nobody is there");
    } catch (const std::system_error &problem) {
        CHECK(problem.code() == std::errc::connection_refused);
        CHECK(std::string(problem.what()).find("127.0.0.1:1") != std::string::npos);
        CHECK(dynamic_cast<const pl::error &>(problem).retryable());
    }
    CHECK(std::error_code(pl::errc::timeout) == std::errc::timed_out);
    CHECK(std::error_code(pl::errc::active) == std::errc::resource_deadlock_would_occur);
    CHECK(std::error_code(pl::errc::lost) != std::errc::timed_out);
    CHECK(std::string(pl::category().name()) == "portalock");
    for (int status = 1; status <= PL_TLS; status++) {
        const std::error_code code(status, pl::category());
        CHECK(code.message() != "unknown");
        CHECK(code.default_error_condition().category() == std::generic_category());
    }
    CHECK(pl::category().message(4711) == "unknown");
}

static void empty_owners_are_refused(const pl::client &client)
{
    pl::lock full(client, "moved"), moved(std::move(full));
    CHECK(!full && moved); // NOLINT: that is what it is about
    THROWS(invalid, full.lock());
    THROWS(invalid, full.verify(1s));
    THROWS(invalid, full.release());
    THROWS(invalid, full.acquire_start());
    THROWS(invalid, full.on_lost([](const pl::loss &) {}));
    full.unlock();
    full.cancel();
    CHECK(!full.is_held() && full.name().empty() && full.holder_id().empty() && !full.data());
    CHECK(full.client_name().empty() && !full.verified_age());
    THROWS(invalid, pl::client().ping(1s));
    THROWS(invalid, pl::lock(pl::client(), "x"));

    pl::lock_options options, taken(std::move(options));
    THROWS(invalid, pl::lock(client, "x", options)); // NOLINT
    CHECK(pl::holders().empty() && !pl::event() && pl::event().message().empty());

    // What it held is released when another takes its place.
    moved.lock();
    pl::lock other(client, "moved");
    CHECK(!other.try_lock());
    moved = pl::lock(client, "elsewhere");
    CHECK(other.try_lock_for(5s));
}

static void guards_of_the_standard_hold_it(const pl::client &client)
{
    pl::lock one(client, "guarded"), other(client, "guarded"), third(client, "third");
    {
        std::lock_guard guard(one);
        CHECK(one.is_held() && !other.try_lock() && !other.try_lock_shared());
        THROWS(active, one.lock());
        THROWS(active, one.try_lock());
    }
    CHECK(!one.is_held());
    {
        std::unique_lock guard(one, std::defer_lock);
        CHECK(guard.try_lock_for(5s) && guard.owns_lock());
        std::unique_lock late(other, std::try_to_lock);
        CHECK(!late.owns_lock());
        CHECK(time_of([&] { CHECK(!late.try_lock_for(50ms)); }) >= 50ms);
        CHECK(!late.try_lock_until(std::chrono::system_clock::now() + 300ms));
        CHECK(!late.try_lock_until(std::chrono::steady_clock::now() - 1h));
        guard.unlock();
        CHECK(late.try_lock_for(5s));
    }
    {
        std::shared_lock reader(one), too(other);
        CHECK(reader.owns_lock() && too.owns_lock());
        CHECK(!pl::lock(client, "guarded").try_lock_for(20ms));
        too.unlock();
        CHECK(too.try_lock_for(5s));
        too.unlock();
        CHECK(too.try_lock_until(std::chrono::steady_clock::now() + 5s));
    }
    {
        std::mutex in_memory;
        std::scoped_lock all(third, in_memory, one);
        CHECK(one.is_held() && third.is_held());
    }
    CHECK(other.try_lock_for(5s));
    other.unlock();
}

static void what_is_done_is_counted(const char *url)
{
    const pl::client client(url);
    pl::lock one(client, "numbers"), other(client, "numbers");
    one.lock();
    CHECK(!other.try_lock() && !other.try_lock_for(20ms));
    one.unlock();
    const pl::stats stats = client.stats();
    CHECK(stats[pl::stat::acquires] == 1 && stats[pl::stat::locked] == 1);
    CHECK(stats[pl::stat::timeouts] == 1 && stats[pl::stat::waits] == 1);
    CHECK(stats[pl::stat::held] == 0 && stats[pl::stat::hand_overs] == 0);
    CHECK(stats.wait_percentile(50) >= 20ms);
    const pl::stats::bucket last = stats.wait_bucket(stats.wait_buckets() - 1);
    CHECK(last.bound == 5min && last.count == 1);
    CHECK(pl::name_of(pl::stat::health_checks) == "health_checks");
    CHECK(pl::name_of(static_cast<pl::stat>(0)).empty());
    std::error_code ec;
    CHECK(!pl::client().stats(ec) && ec == pl::errc::invalid);
    CHECK(pl::stats()[pl::stat::acquires] == 0);
    THROWS(invalid, pl::client().stats());
}

static void spans_are_rounded_up_and_bounded(const pl::client &client)
{
    const auto ms = [](pl::timeout span) { return span.to_c(); };
    CHECK(ms(0s) == 0 && ms(1ns) == 1 && ms(1us) == 1 && ms(1001us) == 2 && ms(5ms) == 5);
    CHECK(ms(-1ns) == 0 && ms(std::chrono::hours::min()) == 0);
    CHECK(ms(std::chrono::nanoseconds::min()) == 0);
    const std::int64_t year = 366LL * 24 * 3600 * 1000;
    CHECK(ms(std::chrono::hours::max()) == year && ms(std::chrono::nanoseconds::max()) == year);
    CHECK(ms(366 * 24h) == year && ms(366 * 24h - 1ms) == year - 1);
    using seconds = std::chrono::duration<double>;
    CHECK(ms(seconds(0.0001)) == 1 && ms(seconds(1e300)) == year && ms(seconds(INFINITY)) == year);
    CHECK(ms(seconds(NAN)) == 0 && ms(seconds(-INFINITY)) == 0);
    using small = std::chrono::duration<std::int8_t, std::ratio<86400>>;
    CHECK(ms(small(127)) == 127LL * 86400 * 1000);
    CHECK(ms(std::chrono::duration<std::uint64_t>(3)) == 3000);
    CHECK(ms(pl::forever) == PL_WAIT_FOREVER && ms(pl::by_options) == PL_DEFAULT);

    pl::lock one(client, "spans"), other(client, "spans");
    CHECK(one.try_lock_until(std::chrono::time_point<std::chrono::system_clock, std::chrono::hours>::max()));
    CHECK(!other.try_lock_for(-1h));
    CHECK(!other.try_lock_until(std::chrono::system_clock::time_point::min()));
    pl::lock brief(client, "spans", pl::lock_options().timeout(30ms));
    CHECK(time_of([&] { THROWS(timeout, brief.acquire()); }) >= 30ms);
    THROWS(locked, brief.acquire(pl::mode::shared, 0ms));
    pl::lock impatient(client, "spans", pl::lock_options().fail_when_locked().mode(pl::mode::shared));
    THROWS(locked, impatient.acquire());
    CHECK(!impatient.try_lock_for(5s));
    one.unlock();
    impatient.acquire();
    other.acquire(pl::mode::shared, 5s);
    impatient.release_wait(5s);
    other.release();
    THROWS(not_held, other.release());
    THROWS(not_held, other.release_wait(pl::forever));
}

static void it_tells_of_itself(const pl::client &client)
{
    CHECK(client.ping(5s) > 0us);
    pl::lock one(client, "shown", pl::lock_options().fencing().label("the one").check_interval(1ms));
    pl::lock other(client, "shown", pl::lock_options().fencing().disclose(false));
    CHECK(client.probe_holders("shown", 5s).empty());
    THROWS(not_held, one.fencing_token());
    CHECK(!one.verified_age() && one.name() == "shown" && one.holder_id().empty());
    one.lock();
    const std::uint64_t token = one.fencing_token();
    CHECK(one.holder_id().size() == 32 && !one.client_name().empty());
    CHECK(one.verified_age() && *one.verified_age() < 1h);
    one.verify(5s);
    THROWS(not_held, other.verify(5s));

    int seen = 0;
    const pl::holders list = client.probe_holders("shown", 5s);
    for (const pl::holder holder : list) {
        CHECK(holder.id() == one.holder_id() && holder.label() == "the one");
        CHECK(holder.mode() == pl::mode::exclusive && holder.wants() == pl::mode::exclusive);
        CHECK(holder.state() == pl::state::held && !holder.legacy() && !holder.foreign());
        CHECK(holder.pid() == getpid() && !holder.host().empty());
        CHECK(std::chrono::system_clock::now() - *holder.since() < 1h);
        seen++;
    }
    CHECK(seen == 1 && list.size() == 1 && list[0].id() == one.holder_id());
    CHECK(client.reap_silent("shown", 1s).alive == 1);
    one.unlock();
    other.lock();
    CHECK(other.fencing_token() > token);
    const pl::holders hidden = client.probe_holders("shown", 5s);
    CHECK(hidden[0].label().empty() && !hidden[0].pid() && hidden[0].host().empty());
    THROWS(invalid, client.probe_holders("", 5s));
}

static void a_loss_is_told(const pl::client &client)
{
    pl::lock one(client, "lossy");
    one.lock();
    lose(one);
    AWAIT(!one.is_held());
    THROWS(lost, one.verify(5s));
    THROWS(lost, one.release());
    std::unique_lock guard(one);
    lose(one);
    AWAIT(!one.is_held());
    guard.unlock();
    guard.lock();
    CHECK(one.is_held());
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    const pl::client client(argv[1], pl::client_options().pool_size(2).connect_timeout(2s));
    errors_are_system_errors(client);
    empty_owners_are_refused(client);
    guards_of_the_standard_hold_it(client);
    spans_are_rounded_up_and_bounded(client);
    what_is_done_is_counted(argv[1]);
    it_tells_of_itself(client);
    a_loss_is_told(client);
    return 0;
}
