// A job of which only one may run at a time, on however many machines.
//
//   guarded_job URL NAME MILLISECONDS [LABEL]
//
// Waits for its turn for as long as it takes, works for so many milliseconds, and leaves. Exit status: 0
// done, 1 the lock could not be had, 2 wrong usage, 3 the lock was lost on the way.
#include <atomic>
#include <iostream>
#include <mutex>
#include <portalock.hpp>
#include <thread>
#include <unistd.h>

using namespace std::chrono_literals;

static std::ostream &say() { return std::cout << "guarded_job[" << getpid() << "] "; }

// Whoever waits wants to know for whom. That nobody could tell is worth no error here.
static void say_who_is_there(const portalock::client &client, const std::string &name)
{
    std::error_code ignored;
    for (const auto holder : client.probe_holders(name, 500ms, ignored))
        say() << "  sees " << (holder.label().empty() ? holder.id() : holder.label())
              << (holder.state() == portalock::state::held ? " hold it" : " wait") << std::endl;
}

// Works in small steps and looks after each whether it may go on.
static bool work(const std::atomic<bool> &lost, std::chrono::milliseconds span)
{
    const auto end = std::chrono::steady_clock::now() + span;
    while (!lost && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(1ms);
    return !lost;
}

static int run(const std::string &url, const std::string &name, std::chrono::milliseconds span,
    const std::string &label)
{
    const portalock::client client(url);
    portalock::lock lock(client, name, portalock::lock_options().label(label));
    // Comes from another thread, and may come late: what it was told, the release tells too.
    std::atomic<bool> lost{false};
    lock.on_lost([&lost](const portalock::loss &) { lost = true; });

    std::unique_lock<portalock::lock> guard(lock, std::try_to_lock);
    if (!guard) {
        say() << "waits" << std::endl;
        say_who_is_there(client, name);
        guard.lock();
    }
    say() << "holds" << std::endl;
    if (!work(lost, span))
        say() << "stops in the middle of its work, since others may have begun theirs" << std::endl;
    // By hand, since the guard would not say that the lock was lost.
    guard.release()->release();
    say() << "done" << std::endl;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc > 5) {
        std::cerr << "usage: guarded_job URL NAME MILLISECONDS [LABEL]\n";
        return 2;
    }
    try {
        return run(argv[1], argv[2], std::chrono::milliseconds(std::stol(argv[3])), argc > 4 ? argv[4] : "");
    } catch (const portalock::error &error) {
        const bool lost = error.code() == portalock::errc::lost;
        say() << (lost ? "LOST the lock: " : "cannot: ") << error.what() << std::endl;
        return lost ? 3 : 1;
    }
}
