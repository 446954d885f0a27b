// One lock object in the hands of many threads, and acquires that are cancelled. argv[1] is the server's URL.
#include "check.hpp"

#include <atomic>
#include <shared_mutex>
#include <thread>
#include <vector>

namespace pl = portalock;

static void run(int count, const std::function<void(int)> &what)
{
    std::vector<std::thread> threads;
    for (int i = 0; i < count; i++)
        threads.emplace_back(what, i);
    for (std::thread &thread : threads)
        thread.join();
}

static void threads_take_turns_with_one_object(const pl::client &client)
{
    pl::lock shared(client, "turns"), elsewhere(client, "turns");
    // Two objects exclude each other, but only one and the same orders what threads do to memory.
    std::atomic<int> inside{0}, entered{0};
    run(6, [&](int number) {
        for (int i = 0; i < 10; i++) {
            std::lock_guard guard(number == 0 ? elsewhere : shared);
            CHECK(++inside == 1);
            entered++;
            inside--;
        }
    });
    CHECK(entered == 60);
}

static void readers_and_writers_take_turns(const pl::client &client)
{
    pl::lock shared(client, "mixed");
    std::atomic<int> readers{0}, writers{0}, together{0};
    run(6, [&](int number) {
        for (int i = 0; i < 10; i++) {
            if (number % 3 == 0) {
                std::unique_lock guard(shared);
                CHECK(++writers == 1 && readers == 0);
                writers--;
            } else {
                std::shared_lock guard(shared);
                if (++readers > 1)
                    together++;
                CHECK(writers == 0);
                std::this_thread::sleep_for(1ms);
                readers--;
            }
        }
    });
    CHECK(together > 0);
}

static void readers_of_one_object_hold_it_together(const pl::client &client)
{
    pl::lock shared(client, "together"), writer(client, "together");
    std::shared_lock first(shared);
    std::thread([&] {
        std::shared_lock second(shared);
        first.unlock();
        CHECK(shared.is_held() && !writer.try_lock());
        CHECK(shared.try_lock_shared());
        shared.unlock_shared();
        CHECK(!shared.try_lock() && !shared.try_lock_for(300ms));
    }).join();
    CHECK(!shared.is_held() && writer.try_lock_for(5s));
    // A reader that loses the lock together with others hears of it too.
    writer.unlock();
    shared.lock_shared();
    shared.lock_shared();
    lose(shared);
    AWAIT(!shared.is_held());
    THROWS(lost, shared.release());
    THROWS(lost, shared.release());
    THROWS(not_held, shared.release());
}

// Readers that come one after the other, and always overlap, let a writer of another process in.
static void a_crowd_of_readers_keeps_no_writer_out(const pl::client &client)
{
    pl::lock shared(client, "crowd"), writer(client, "crowd");
    std::atomic<bool> over{false};
    run(4, [&](int number) {
        if (number == 0) {
            std::this_thread::sleep_for(100ms);
            CHECK(writer.try_lock_for(20s));
            over = true;
            writer.unlock();
        }
        while (!over) {
            std::shared_lock guard(shared);
            std::this_thread::sleep_for(std::chrono::milliseconds(3 * number));
        }
    });
}

static void a_thread_that_waits_for_another_times_out(const pl::client &client)
{
    pl::lock shared(client, "waiting");
    std::unique_lock guard(shared);
    run(3, [&](int) {
        CHECK(!shared.try_lock() && !shared.try_lock_shared());
        CHECK(time_of([&] { CHECK(!shared.try_lock_for(50ms)); }) >= 50ms);
        CHECK(!shared.try_lock_shared_for(20ms));
        std::error_code ec;
        CHECK(!shared.acquire(pl::mode::shared, 20ms, ec) && ec == pl::errc::timeout);
    });
    // Another thread than the one that has locked it may unlock it.
    std::thread([&] { guard.unlock(); }).join();
    CHECK(shared.try_lock());
    shared.unlock();
}

static void cancel_ends_whoever_waits(const pl::client &client)
{
    pl::lock holder(client, "cancelled"), shared(client, "cancelled");
    std::lock_guard guard(holder);
    shared.cancel();
    std::atomic<int> ended{0};
    std::thread canceller([&] {
        while (ended < 3) {
            std::this_thread::sleep_for(20ms);
            shared.cancel();
        }
    });
    run(3, [&](int) {
        THROWS(cancelled, shared.lock());
        ended++;
    });
    canceller.join();
    CHECK(!shared.try_lock());
}

#ifdef PORTALOCK_HAS_STOP_TOKEN
static void a_stop_token_ends_an_acquire(const pl::client &client)
{
    pl::lock holder(client, "stopped"), shared(client, "stopped");
    std::unique_lock guard(holder);
    // At every moment: before it begins, while it waits at the server, and while another thread does.
    for (int delay = 0; delay < 20; delay++) {
        std::jthread first([&](std::stop_token token) { CHECK(!shared.lock(token)); });
        std::jthread second([&](std::stop_token token) { CHECK(!shared.lock_shared(token)); });
        std::this_thread::sleep_for(std::chrono::microseconds(delay * delay * 50));
        second.request_stop();
        second.join();
    }
    std::stop_source source;
    CHECK(!shared.try_lock_for(300ms, source.get_token()));
    std::error_code ec;
    CHECK(!shared.acquire(pl::mode::none, 300ms, source.get_token(), ec) && ec == pl::errc::timeout);
    guard.unlock();
    CHECK(shared.lock(source.get_token()));
    // To stop when it is held has no effect.
    source.request_stop();
    CHECK(shared.is_held());
    shared.unlock();
    CHECK(!shared.lock(source.get_token()) && !shared.try_lock_shared_for(5s, source.get_token()));
    CHECK(!shared.acquire(pl::mode::none, 1s, source.get_token(), ec) && ec == pl::errc::cancelled);
}
#endif

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    const pl::client client(argv[1]);
    threads_take_turns_with_one_object(client);
    readers_and_writers_take_turns(client);
    readers_of_one_object_hold_it_together(client);
    a_crowd_of_readers_keeps_no_writer_out(client);
    a_thread_that_waits_for_another_times_out(client);
    cancel_ends_whoever_waits(client);
#ifdef PORTALOCK_HAS_STOP_TOKEN
    a_stop_token_ends_an_acquire(client);
#endif
    return 0;
}
