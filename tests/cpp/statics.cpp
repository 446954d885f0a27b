// Locks and clients in static objects of C++: their destructors run when main has returned, after and
// before those of others, and while the library's threads are still there. argv[1] is the server's URL.
#include <cstdio>
#include <cstdlib>
#include <portalock.h>

namespace {

void check(pl_status status, const char *what)
{
    if (status != PL_OK) {
        std::fprintf(stderr, "%s: %s\n", what, pl_status_name(status));
        std::abort();
    }
}

struct Client {
    pl_client *handle = nullptr;
    ~Client() { pl_client_free(handle); }
};

struct Lock {
    pl_lock *handle = nullptr;

    void take(const Client &client, const char *name)
    {
        check(pl_lock_new(client.handle, name, nullptr, &handle, nullptr), "new");
        check(pl_lock_acquire(handle, 1000, nullptr), "acquire");
    }

    ~Lock()
    {
        if (!pl_lock_is_held(handle))
            std::abort();
        check(pl_lock_release_wait(handle, 1000, nullptr), "release_wait");
        check(pl_lock_acquire(handle, 1000, nullptr), "acquire in a destructor");
        pl_lock_free(handle);
    }
};

Lock before;
Client client;
Lock after;

thread_local Lock of_thread;

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2)
        return 64;
    check(pl_client_new(argv[1], nullptr, &client.handle, nullptr), "client");
    before.take(client, "leaving");
    after.take(client, "leaving too");
    of_thread.take(client, "leaving as well");
    return 0;
}
