// One of many processes leads, and another takes over when it goes, however it goes.
//
//   leader URL NAME ROUNDS MILLISECONDS
//
// Waits until it leads, leads for so many milliseconds, and steps down; that many rounds.
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <portalock.hpp>
#include <string>
#include <unistd.h>

static void say(const std::string &what)
{
    std::cout << "leader " << getpid() << ' ' << what << std::endl;
}

// What the term is ended by before its time. The library's thread tells, the leader waits for it.
class alarm_bell {
public:
    void ring(std::string_view why)
    {
        std::lock_guard guard(mutex_);
        why_ = why;
        changed_.notify_all();
    }

    void reset()
    {
        std::lock_guard guard(mutex_);
        why_.clear();
    }

    // Why it rings, or nothing if it does not until then.
    std::string wait_for(std::chrono::milliseconds span)
    {
        std::unique_lock guard(mutex_);
        changed_.wait_for(guard, span, [&] { return !why_.empty(); });
        return why_;
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::string why_;
};

static void lead(portalock::lock &lock, alarm_bell &bell, std::chrono::milliseconds term)
{
    bell.reset();
    std::lock_guard leading(lock);
    say("leads");
    const std::string lost = bell.wait_for(term);
    say(lost.empty() ? "steps down" : "lost it: " + lost);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        std::cerr << "usage: leader URL NAME ROUNDS MILLISECONDS\n";
        return 2;
    }
    try {
        const portalock::client client(argv[1]);
        alarm_bell bell;
        portalock::lock lock(client, argv[2]);
        lock.on_lost([&bell](const portalock::loss &loss) { bell.ring(loss.message); });
        for (long rounds = std::stol(argv[3]); rounds > 0; rounds--)
            lead(lock, bell, std::chrono::milliseconds(std::stol(argv[4])));
    } catch (const std::exception &error) {
        std::cerr << "leader " << getpid() << ": " << error.what() << '\n';
        return 1;
    }
}
