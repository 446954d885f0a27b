// Callables, events and acquires that are started. argv[1] is the server's URL.
#include "check.hpp"

#include <atomic>
#include <poll.h>

namespace pl = portalock;

// Counts how many of it are there; move-only, as callables may be.
struct counted {
    explicit counted(std::atomic<int> &count) : count_(&count) { ++*count_; }
    counted(counted &&other) noexcept : count_(other.count_) { ++*count_; }
    ~counted() { --*count_; }
    std::atomic<int> *count_;
};

static void losses_are_told_once(const pl::client &client)
{
    std::atomic<int> alive{0}, calls{0};
    pl::lock one(client, "told");
    one.on_lost([kept = counted(alive), &calls](const pl::loss &loss) {
        CHECK(loss.reason == pl::loss_reason::disconnected && !loss.message.empty());
        ++calls;
    });
    CHECK(alive == 1);
    for (int wanted = 1; wanted <= 2; wanted++) {
        one.lock();
        lose(one);
        AWAIT(calls == wanted);
        one.unlock();
    }
    one.on_lost(nullptr);
    AWAIT(alive == 0);
    one.on_lost(std::function<void(const pl::loss &)>());
    std::function<void(const pl::loss &)> named = [kept = std::make_shared<counted>(alive)](auto &) {};
    one.on_lost(named);
    one.on_lost(std::move(named));
    one = pl::lock(client, "elsewhere");
    named = nullptr;
    AWAIT(alive == 0);

    // Also where nothing takes it.
    std::error_code ec;
    pl::lock().on_lost([kept = counted(alive)](const pl::loss &) {}, ec);
    CHECK(ec == pl::errc::invalid && alive == 0);
}

static void a_callback_may_destroy_its_lock(const pl::client &client)
{
    std::atomic<bool> gone{false};
    auto one = std::make_unique<pl::lock>(client, "doomed");
    one->lock();
    one->on_lost([&](const pl::loss &) {
        THROWS(lost, one->release());
        one.reset();
        gone = true;
    });
    lose(*one);
    AWAIT(gone.load());
}

static void started_acquires_call_back(const pl::client &client)
{
    std::atomic<int> alive{0}, calls{0};
    std::error_code ended;
    const auto done = [&] {
        return [kept = counted(alive), &calls, &ended](std::error_code code, std::string_view text) {
            CHECK(text.empty() == !code);
            ended = code;
            ++calls;
        };
    };
    pl::lock one(client, "started"), other(client, "started");
    one.acquire_start(pl::mode::none, pl::by_options, done());
    AWAIT(calls == 1);
    CHECK(!ended && one.is_held());
    THROWS(active, one.acquire_start(pl::mode::shared, 1s, done()));
    THROWS(active, one.lock());
    other.acquire_start(pl::mode::shared, 20ms, done());
    AWAIT(calls == 2);
    CHECK(ended == pl::errc::timeout);
    other.acquire_start(pl::mode::exclusive, pl::forever, done());
    other.cancel();
    AWAIT(calls == 3);
    CHECK(ended == pl::errc::cancelled);
    other.acquire_start(pl::mode::exclusive, pl::forever, done());
    other = pl::lock();
    AWAIT(alive == 0);
    CHECK(calls == 3);
    one.release();
    one.lock();
}

static void events_are_fetched(const std::string &url)
{
    const pl::client client(url);
    pl::lock one(client, "eventful"), other(client, "eventful");
    THROWS(invalid, one.acquire_start());
    const int fd = client.event_fd();
    const auto raised = [&] {
        pollfd entry = {fd, POLLIN, 0};
        return poll(&entry, 1, 0) == 1;
    };
    CHECK(!raised() && !client.next_event(0s) && !client.next_event(5ms));
    one.data(&one);
    one.acquire_start(pl::mode::exclusive, 5s);
    pl::event event = client.next_event(pl::forever);
    CHECK(event && event.type() == pl::event_type::acquired && !event.code());
    CHECK(event.is_of(one) && !event.is_of(other) && event.data() == &one && event.count() == 1);
    CHECK(event.name() == "eventful" && event.message().empty() && !raised());
    lose(one);
    AWAIT(raised());
    event = client.next_event(0s);
    CHECK(event.type() == pl::event_type::lost && event.code() == pl::errc::lost);
    CHECK(event.reason() == pl::loss_reason::disconnected && !event.message().empty());
    one.unlock();
    THROWS(invalid, client.next_event(pl::by_options));
    std::error_code ec;
    CHECK(!client.next_event(0s, ec) && !ec && client.event_fd(ec) == fd);
    CHECK(pl::client().event_fd(ec) == -1 && ec == pl::errc::invalid);
}

static void a_log_handler_is_destroyed_when_another_comes()
{
    static std::atomic<int> alive{0};
    pl::set_log_handler(pl::log_level::debug,
        [kept = std::make_shared<counted>(alive)](pl::log_level level, std::string_view line) {
            CHECK(level != pl::log_level::off && !line.empty());
        });
    CHECK(alive == 1);
    std::error_code ec = pl::errc::lost;
    pl::set_log_handler(pl::log_level::off, [](pl::log_level, std::string_view) {}, ec);
    CHECK(!ec);
    AWAIT(alive == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    const pl::client client(argv[1]);
    losses_are_told_once(client);
    a_callback_may_destroy_its_lock(client);
    started_acquires_call_back(client);
    events_are_fetched(argv[1]);
    a_log_handler_is_destroyed_when_another_comes();
    return 0;
}
