// Owners that a child inherits: they answer errc::forked, and can be destroyed. argv[1] is the server's URL.
#include "check.hpp"

#include <atomic>
#include <mutex>
#include <sys/wait.h>
#include <thread>

namespace pl = portalock;

static void in_the_child(const std::string &url, pl::lock held, pl::lock &contended)
{
    // Other threads of the parent were within, and their locks with them.
    THROWS(forked, held.lock());
    THROWS(forked, held.release());
    THROWS(forked, contended.try_lock());
    THROWS(forked, contended.verify(1s));
    contended.cancel();
#ifdef PORTALOCK_HAS_STOP_TOKEN
    std::stop_source source;
    source.request_stop();
    THROWS(forked, held.lock(source.get_token()));
#endif
    held.unlock();
    held = pl::lock();
    contended = pl::lock();
    pl::client client(url);
    pl::lock own(client, "held");
    CHECK(!own.try_lock());
    std::_Exit(0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    const pl::client client(argv[1]);
    pl::lock held(client, "held"), contended(client, "contended");
    held.lock();
    contended.lock();
    std::atomic<bool> over{false};
    const auto contend = [&] {
        while (!over)
            contended.try_lock_for(1ms);
    };
    // It finds the turn taken, over and over: most children begin in the middle of that.
    const auto insist = [&] {
        while (!over)
            held.try_lock();
    };
    std::thread first(contend), second(insist), third(insist);
    std::this_thread::sleep_for(20ms);
    for (int i = 0; i < 20; i++) {
        const pid_t child = fork();
        if (child == 0)
            in_the_child(argv[1], std::move(held), contended);
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    over = true;
    first.join();
    second.join();
    third.join();
    CHECK(held.is_held() && contended.is_held());
    held.verify(5s);
    return 0;
}
