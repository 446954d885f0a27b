/*
 * A daemon with one thread and one poll loop that looks after many shards, each under a lock of its own:
 * it works on those shards whose locks it holds. Start it twice, and the second takes over what the first
 * leaves, however it ends.
 *
 *   poll_loop URL PREFIX [LOCKS]
 *
 * The locks are PREFIX-0, PREFIX-1 and so on, 100 unless told otherwise. SIGTERM and SIGINT end it.
 */
#include <errno.h>
#include <poll.h>
#include <portalock.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct shard {
    int number;
    int owned;
};

static volatile sig_atomic_t ended;

static void on_signal(int number)
{
    (void)number;
    ended = 1;
}

static void die(const char *what, pl_error *error)
{
    fprintf(stderr, "poll_loop[%d]: %s: %s\n", (int)getpid(), what, pl_error_message(error));
    exit(1);
}

/* Begins to wait for a shard's lock, for as long as it takes; the event queue tells when it is ours. */
static void want(pl_lock *lock)
{
    pl_acquired_callback none = {NULL, NULL, NULL};
    pl_error *error;
    pl_status status =
        pl_lock_acquire_start(lock, PL_MODE_EXCLUSIVE, PL_WAIT_FOREVER, none, &error);
    if (status != PL_OK && status != PL_ACTIVE)
        die("cannot wait for a lock", error);
    pl_error_free(error);
}

/* Events were dropped: what they told has to be found out. Returns how many shards are ours. */
static int look_at_all(pl_lock **locks, int count)
{
    int owned = 0;
    for (int i = 0; i < count; i++) {
        struct shard *shard = pl_lock_data(locks[i]);
        shard->owned = pl_lock_is_held(locks[i]);
        owned += shard->owned;
        if (!shard->owned)
            want(locks[i]);
    }
    return owned;
}

/* Returns by how much the number of our shards has changed. */
static int own(struct shard *shard, int owned)
{
    int change = owned - shard->owned;
    shard->owned = owned;
    return change;
}

/* Returns by how much the number of our shards has changed. */
static int handle(const pl_event *event)
{
    pl_lock *lock = pl_event_lock(event);
    struct shard *shard = pl_lock_data(lock);
    switch (pl_event_type_of(event)) {
    case PL_EVENT_ACQUIRED:
        if (pl_event_status(event) != PL_OK) {
            printf("shard %d: %s\n", shard->number, pl_event_message(event));
            want(lock);
            return 0;
        }
        return own(shard, 1);
    case PL_EVENT_LOST:
        printf("shard %d is lost: %s\n", shard->number, pl_event_message(event));
        want(lock);
        return own(shard, 0);
    case PL_EVENT_TROUBLE:
        printf("shard %d: %s; still trying\n", shard->number, pl_event_message(event));
        return 0;
    default:
        return 0;
    }
}

/* Returns whether any of our shards has come or gone, be it that it is back already. */
static int handle_all(pl_client *client, pl_lock **locks, int count, int *owned)
{
    for (int changed = 0;;) {
        pl_event *event;
        pl_error *error;
        if (pl_client_next_event(client, 0, &event, &error) != PL_OK)
            die("no events", error);
        if (event == NULL)
            return changed;
        int before = *owned;
        if (pl_event_type_of(event) == PL_EVENT_OVERFLOW)
            *owned = look_at_all(locks, count);
        else
            *owned += handle(event);
        changed |= *owned != before;
        pl_event_free(event);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: %s URL PREFIX [LOCKS]\n", argv[0]);
        return 64;
    }
    int count = argc > 3 ? atoi(argv[3]) : 100, fd;
    if (count < 1)
        count = 1;
    pl_client *client;
    pl_error *error;
    if (pl_client_new(argv[1], NULL, &client, &error) != PL_OK)
        die("no client", error);
    if (pl_client_event_fd(client, &fd, &error) != PL_OK)
        die("no event queue", error);

    pl_lock **locks = calloc((size_t)count, sizeof *locks);
    struct shard *shards = calloc((size_t)count, sizeof *shards);
    if (locks == NULL || shards == NULL)
        return 1;
    for (int i = 0; i < count; i++) {
        char name[256];
        snprintf(name, sizeof name, "%.200s-%d", argv[2], i);
        if (pl_lock_new(client, name, NULL, &locks[i], &error) != PL_OK)
            die("no lock", error);
        shards[i].number = i;
        pl_lock_set_data(locks[i], &shards[i], NULL);
        want(locks[i]);
    }

    /* The signals come while the loop sleeps, and at no other time. */
    sigset_t blocked, before;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGINT);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int owned = 0; !ended;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN, .revents = 0};
        if (ppoll(&ready, 1, NULL, &before) < 0 && errno != EINTR)
            return 1;
        if (handle_all(client, locks, count, &owned))
            printf("poll_loop[%d] owns %d of %d shards\n", (int)getpid(), owned, count);
    }

    for (int i = 0; i < count; i++)
        pl_lock_free(locks[i]);
    pl_client_free(client);
    free(locks);
    free(shards);
    printf("poll_loop[%d] has left\n", (int)getpid());
    return 0;
}
