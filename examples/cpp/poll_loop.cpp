// A daemon with one thread and one poll loop that looks after many shards, each under a lock of its own.
// Start it twice, and the second takes over what the first leaves, however it ends.
//
//   poll_loop URL PREFIX [COUNT]
//
// The locks are PREFIX-0, PREFIX-1 and so on, 100 unless told otherwise. SIGTERM and SIGINT end it.
#include <csignal>
#include <cstring>
#include <iostream>
#include <poll.h>
#include <portalock.hpp>
#include <sys/signalfd.h>
#include <unistd.h>
#include <vector>

struct shard {
    portalock::lock lock;
    bool owned = false;
};

// Begins to wait for a shard's lock, for as long as it takes; an event tells when it is ours.
static void want(shard &one)
{
    one.owned = false;
    std::error_code ec;
    one.lock.acquire_start(portalock::mode::exclusive, portalock::forever, ec);
    if (ec && ec != portalock::errc::active)
        throw std::system_error(ec);
}

static void handle(const portalock::event &event, std::vector<shard> &shards)
{
    auto *one = static_cast<shard *>(event.data());
    switch (event.type()) {
    case portalock::event_type::acquired:
        if (event.code())
            want(*one);
        else
            one->owned = true;
        break;
    case portalock::event_type::lost:
        std::cout << event.name() << " is lost: " << event.message() << std::endl;
        one->lock.unlock();
        want(*one);
        break;
    case portalock::event_type::overflow:
        // What the events that were dropped told has to be found out.
        for (shard &any : shards)
            if (!(any.owned = any.lock.is_held()))
                want(any);
        break;
    default:
        break;
    }
}

static std::size_t owned(const std::vector<shard> &shards)
{
    std::size_t count = 0;
    for (const shard &one : shards)
        count += one.owned;
    return count;
}

static int end_signals()
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    return signalfd(-1, &signals, SFD_CLOEXEC);
}

static void run(const std::string &url, const std::string &prefix, std::size_t count)
{
    const portalock::client client(url);
    pollfd sources[] = {{client.event_fd(), POLLIN, 0}, {end_signals(), POLLIN, 0}};
    std::vector<shard> shards(count);
    for (std::size_t i = 0; i < count; i++) {
        shards[i].lock = portalock::lock(client, prefix + "-" + std::to_string(i));
        shards[i].lock.data(&shards[i]);
        want(shards[i]);
    }
    while (poll(sources, 2, -1) < 0 || !sources[1].revents) {
        bool changed = false;
        while (const portalock::event event = client.next_event(std::chrono::seconds(0))) {
            const std::size_t before = owned(shards);
            handle(event, shards);
            changed |= owned(shards) != before;
        }
        if (changed)
            std::cout << getpid() << " owns " << owned(shards) << " of " << count << " shards" << std::endl;
    }
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 4) {
        std::cerr << "usage: poll_loop URL PREFIX [COUNT]\n";
        return 2;
    }
    try {
        run(argv[1], argv[2], argc > 3 ? std::stoul(argv[3]) : 100);
    } catch (const std::exception &error) {
        std::cerr << "poll_loop " << getpid() << ": " << error.what() << '\n';
        return 1;
    }
}
