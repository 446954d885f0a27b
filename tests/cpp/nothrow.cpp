// The overloads that throw nothing; built with -fno-exceptions and -fno-rtti. argv[1] is the server's URL.
#include "check.hpp"

#include <atomic>
#include <shared_mutex>

#ifdef PORTALOCK_HAS_EXCEPTIONS
#error "this is to be built without exceptions"
#endif

namespace pl = portalock;

static void failures_are_codes()
{
    std::error_code ec = pl::errc::lost;
    pl::client client("nothing of the kind", ec);
    CHECK(!client && ec == std::errc::invalid_argument && !ec.message().empty());
    CHECK(client.ping(1s, ec) == 0us && ec == pl::errc::invalid);
    CHECK(client.probe_holders("x", 1s, ec).empty() && ec == pl::errc::invalid);
    CHECK(client.reap_silent("x", 1s, ec).alive == 0 && ec == pl::errc::invalid);
    pl::lock lock(client, "x", ec);
    CHECK(!lock && ec == pl::errc::invalid);
    CHECK(!lock.try_lock(ec) && ec == pl::errc::invalid);
    pl::client options("redis://a", pl::client_options().pool_size(9999), ec);
    CHECK(!options && ec == pl::errc::invalid);

    pl::client nobody("redis://127.0.0.1:1", ec);
    CHECK(nobody && !ec);
    pl::lock alone(nobody, "x", pl::lock_options().timeout(20ms), ec);
    CHECK(alone && !ec);
    CHECK(!alone.try_lock(ec) && ec == std::errc::connection_refused);
    CHECK(!alone.try_lock_shared_for(20ms, ec) && ec == pl::errc::refused);
    CHECK(!alone.acquire(ec) && ec == pl::errc::refused);
}

static void locks_are_taken(const pl::client &client)
{
    std::error_code ec = pl::errc::lost;
    pl::lock one(client, "codes", pl::lock_options().fencing(), ec), other(client, "codes", ec);
    CHECK(!ec);
    one.lock(ec);
    CHECK(!ec && one.is_held() && one.fencing_token(ec) > 0 && !ec && one.verify(5s, ec) && !ec);
    one.lock(ec);
    CHECK(ec == pl::errc::active);
    // Somebody in the way is an answer, and no error. Long enough for a busy machine to give one.
    CHECK(!other.try_lock(ec) && !ec && !other.try_lock_for(300ms, ec) && !ec);
    CHECK(!other.try_lock_until(std::chrono::steady_clock::now() + 300ms, ec) && !ec);
    CHECK(!other.try_lock_shared(ec) && !ec && !other.try_lock_shared_for(300ms, ec) && !ec);
    CHECK(!other.try_lock_shared_until(std::chrono::steady_clock::now() + 300ms, ec) && !ec);
    CHECK(!other.acquire(pl::mode::shared, 300ms, ec) && ec == pl::errc::timeout);
    CHECK(!other.acquire(pl::mode::shared, 0ms, ec) && ec == pl::errc::locked);
    CHECK(client.probe_holders("codes", 5s, ec).size() == 1 && !ec);
    one.release_wait(5s, ec);
    CHECK(!ec);
    one.release(ec);
    CHECK(ec == pl::errc::not_held && one.fencing_token(ec) == 0 && ec == pl::errc::not_held);
    CHECK(!one.verify(1s, ec) && ec == pl::errc::not_held);
    other.lock_shared(ec);
    CHECK(!ec && one.try_lock_shared(ec) && !ec);
    lose(one);
    AWAIT(!one.is_held());
    one.release(ec);
    CHECK(ec == pl::errc::lost);
}

static void callables_are_called(const pl::client &client)
{
    std::error_code ec;
    std::atomic<int> calls{0};
    pl::lock one(client, "called", ec);
    one.on_lost([&](const pl::loss &) { calls++; }, ec);
    CHECK(!ec);
    one.acquire_start(pl::mode::none, 5s, [&](std::error_code code, auto) { calls += !code; }, ec);
    CHECK(!ec);
    AWAIT(calls == 1);
    lose(one);
    AWAIT(calls == 2);
    one.unlock();
    one.acquire_start(pl::mode::none, 5s, ec);
    CHECK(ec == pl::errc::invalid && client.event_fd(ec) >= 0 && !ec);
    CHECK(!client.next_event(0s, ec) && !ec);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    std::error_code ec;
    const pl::client client(argv[1], ec);
    CHECK(client && !ec && client.ping(5s, ec) > 0us && !ec);
    failures_are_codes();
    locks_are_taken(client);
    callables_are_called(client);
    // The guards of the standard work as well.
    pl::lock one(client, "guards", ec);
    std::unique_lock<pl::lock> guard(one);
    CHECK(one.is_held());
    return 0;
}
