// What programs do that they better did not, and orders that nobody expects. argv[1] is the server's URL.
#include "check.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace pl = portalock;

// Each thread has objects of its own, and each names the locks in another order: whoever locked them one
// after the other would wait for ever.
static void several_locks_are_taken_in_any_order(const pl::client &client)
{
    std::atomic<int> inside{0}, entered{0};
    const auto work = [&](const char *one, const char *two, const char *three) {
        pl::lock a(client, one), b(client, two), c(client, three);
        for (int i = 0; i < 8; i++) {
            std::scoped_lock all(a, b, c);
            CHECK(++inside == 1 && a.is_held() && b.is_held() && c.is_held());
            entered++;
            inside--;
        }
    };
    std::vector<std::thread> threads;
    threads.emplace_back(work, "x", "y", "z");
    threads.emplace_back(work, "z", "y", "x");
    threads.emplace_back(work, "y", "z", "x");
    for (std::thread &thread : threads)
        thread.join();
    CHECK(entered == 24);
    for (const char *name : {"x", "y", "z"})
        CHECK(client.probe_holders(name, 5s).empty());
}

static void one_that_cannot_be_had_leaves_none_of_them_held(const pl::client &client)
{
    const pl::client nobody("redis://127.0.0.1:1");
    pl::lock one(client, "half"), other(client, "other half"), impossible(nobody, "x");
    try {
        std::scoped_lock all(one, impossible, other);
        CHECK(!"there is no such server");
    } catch (const pl::error &problem) {
        CHECK(problem.code() == pl::errc::refused);
    }
    CHECK(!one.is_held() && !other.is_held());
    CHECK(one.try_lock_for(5s) && other.try_lock_for(5s));
    one.unlock();
    other.unlock();
    CHECK(std::try_lock(one, other) == -1);
    pl::lock late(client, "other half");
    one.unlock();
    CHECK(std::try_lock(one, late) == 1 && !one.is_held());
    other.unlock();
}

static void an_exception_leaves_it_released(const pl::client &client)
{
    pl::lock one(client, "thrown");
    for (int i = 0; i < 3; i++) {
        try {
            std::scoped_lock guard(one);
            throw std::runtime_error("of the section");
        } catch (const std::runtime_error &) {
            CHECK(!one.is_held());
        }
    }
    CHECK(pl::lock(client, "thrown").try_lock_for(5s));
}

static void a_condition_variable_goes_with_it(const pl::client &client)
{
    pl::lock one(client, "condition");
    std::condition_variable_any changed;
    bool ready = false;
    std::thread other([&] {
        std::lock_guard guard(one);
        ready = true;
        changed.notify_all();
    });
    std::unique_lock guard(one);
    CHECK(changed.wait_for(guard, 20s, [&] { return ready; }));
    CHECK(one.is_held());
    guard.unlock();
    other.join();
}

static void what_is_gone_is_not_missed(const std::string &url)
{
    auto client = std::make_unique<pl::client>(url);
    client->event_fd();
    auto one = std::make_unique<pl::lock>(*client, "early");
    int number = 7;
    one->data(&number);
    one->acquire_start(pl::mode::exclusive, 5s);
    const pl::event event = client->next_event(5s);
    CHECK(event.data() == &number && event.is_of(*one));
    one.reset();
    CHECK(event && event.data() == nullptr && event.name() == "early" && !event.is_of(pl::lock()));

    // The client goes before its locks and its events, and they go on.
    pl::lock held(*client, "orphan"), waits(*client, "orphan");
    held.lock();
    std::thread waiter([&] {
        std::lock_guard guard(waits);
        CHECK(waits.is_held());
    });
    client.reset();
    CHECK(event.name() == "early");
    held.verify(5s);
    held.unlock();
    waiter.join();
    held.lock();
}

// A container moves its elements about, and what they hold stays held.
static void owners_move_with_what_they_hold(const pl::client &client)
{
    std::vector<pl::lock> locks;
    for (int i = 0; i < 20; i++) {
        locks.emplace_back(client, "element " + std::to_string(i));
        locks.back().lock();
    }
    std::swap(locks.front(), locks.back());
    CHECK(locks.front().name() == "element 19" && locks.back().name() == "element 0");
    pl::lock &same = locks.front();
    same = std::move(locks.front());
    CHECK(same.is_held());
    for (const pl::lock &one : locks)
        CHECK(one.is_held());
    locks.erase(locks.begin(), locks.begin() + 10);
    CHECK(locks.size() == 10 && locks.front().is_held());
    CHECK(pl::lock(client, "element 19").try_lock_for(5s));
    CHECK(!pl::lock(client, "element 15").try_lock());
}

struct unwilling {
    std::atomic<int> *calls;
    bool copies = true;
    explicit unwilling(std::atomic<int> &count) : calls(&count) {}
    unwilling(const unwilling &other) : calls(other.calls)
    {
        if (!other.copies)
            throw std::runtime_error("cannot be copied");
    }
    void operator()(const pl::loss &) const { ++*calls; }
};

static void a_callable_that_cannot_be_copied_changes_nothing(const pl::client &client)
{
    std::atomic<int> before{0}, after{0};
    pl::lock one(client, "unwilling");
    one.on_lost(unwilling(before));
    unwilling other(after);
    other.copies = false;
    try {
        one.on_lost(other);
        CHECK(!"it was copied");
    } catch (const std::runtime_error &) {
    }
    one.lock();
    lose(one);
    AWAIT(before == 1);
    CHECK(after == 0);
}

static void points_far_away_are_no_overflow(const pl::client &client)
{
    pl::lock one(client, "far"), other(client, "far");
    using clock = std::chrono::steady_clock;
    CHECK(one.try_lock_until(clock::time_point::max()));
    CHECK(!other.try_lock_until(clock::time_point::min()));
    CHECK(!other.try_lock_for(std::chrono::nanoseconds::min()));
    one.unlock();
    CHECK(other.try_lock_for(std::chrono::hours::max()));
    other.unlock();
    CHECK(other.try_lock_until(std::chrono::system_clock::time_point::max()));
}

#ifdef PORTALOCK_HAS_STOP_TOKEN
static void a_stop_that_was_requested_before_takes_nothing(const pl::client &client)
{
    std::stop_source source;
    source.request_stop();
    pl::lock one(client, "stopped before"), other(client, "stopped before");
    for (int i = 0; i < 50; i++) {
        CHECK(!one.lock(source.get_token()) && !one.is_held());
        CHECK(!one.try_lock_shared_for(0s, source.get_token()));
    }
    CHECK(other.try_lock());
    std::error_code ec;
    CHECK(!pl::lock().acquire(pl::mode::none, 1s, source.get_token(), ec) && ec == pl::errc::invalid);
    // One that nobody can request.
    other.unlock();
    CHECK(one.lock(std::stop_token()));
    one.unlock();
}

// Of those who wait with one token all end, and those with another go on.
static void a_stop_ends_whom_it_is_for(const pl::client &client)
{
    pl::lock holder(client, "for some"), shared(client, "for some"), apart(client, "for some");
    holder.lock();
    std::stop_source stopped, spared;
    std::atomic<int> granted{0}, ended{0};
    std::vector<std::jthread> threads;
    for (pl::lock *one : {&shared, &shared, &shared, &apart}) {
        for (const std::stop_source &source : {stopped, spared}) {
            threads.emplace_back([one, token = source.get_token(), &granted, &ended] {
                if (!one->lock(token)) {
                    ended++;
                    return;
                }
                granted++;
                one->unlock();
            });
        }
    }
    std::this_thread::sleep_for(50ms);
    stopped.request_stop();
    AWAIT(ended == 4);
    CHECK(granted == 0);
    holder.unlock();
    threads.clear();
    CHECK(granted == 4 && ended == 4);
}
#endif

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    const pl::client client(argv[1]);
    several_locks_are_taken_in_any_order(client);
    one_that_cannot_be_had_leaves_none_of_them_held(client);
    an_exception_leaves_it_released(client);
    a_condition_variable_goes_with_it(client);
    what_is_gone_is_not_missed(argv[1]);
    owners_move_with_what_they_hold(client);
    a_callable_that_cannot_be_copied_changes_nothing(client);
    points_far_away_are_no_overflow(client);
#ifdef PORTALOCK_HAS_STOP_TOKEN
    a_stop_that_was_requested_before_takes_nothing(client);
    a_stop_ends_whom_it_is_for(client);
#endif
    return 0;
}
