/*
 * Forks in the way that argv[2] names, and leaves it to the driver of the tests to kill one side.
 * argv[1] is the server's URL. Says "child PID" once the child is there, and does nothing more then.
 */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

static pl_client *client;
static pl_lock *mine, *other;

/* Until it is killed, or nobody has done so for long. */
static void linger(void)
{
    alarm(60);
    for (;;)
        pause();
}

static void *wait_for_it(void *unused)
{
    (void)unused;
    pl_lock_acquire(mine, PL_WAIT_FOREVER, NULL);
    return NULL;
}

/* The child of a process that is killed must not keep its locks, whatever the child does. */
static void *fork_and_tell(void *way)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0 && strcmp(way, "exec") == 0)
        execlp("sleep", "sleep", "60", (char *)NULL);
    if (child == 0) {
        CHECK(!pl_lock_is_held(mine) && pl_lock_verified_age(mine) == -1);
        bool held;
    ANSWERS(PL_FORKED, pl_lock_acquire_begin(mine, PL_MODE_NONE, 10, &held, &error));
    ANSWERS(PL_FORKED, pl_lock_release(mine, &error));
        ANSWERS(PL_FORKED, pl_lock_verify(mine, 100, &error));
        /* Its own exit, or life, says nothing on the sockets of the parent. */
        linger();
    }
    printf("child %d\n", (int)child);
    fflush(stdout);
    return NULL;
}

static void one_fork(const char *way)
{
    pthread_t thread;
    mine = check_lock(client, "forks");
    other = check_lock(client, "warm");
    ANSWERS(PL_OK, pl_lock_acquire(other, 1000, &error));
    ANSWERS(PL_OK, pl_lock_release(other, &error));
    if (strcmp(way, "waiting") == 0)
        CHECK(pthread_create(&thread, NULL, wait_for_it, NULL) == 0);
    else if (strcmp(way, "idle") != 0)
        ANSWERS(PL_OK, pl_lock_acquire(mine, 1000, &error));
    check_ask("ready");
    if (strcmp(way, "thread") == 0)
        CHECK(pthread_create(&thread, NULL, fork_and_tell, (void *)way) == 0);
    else
        fork_and_tell((void *)way);
    linger();
}

static atomic_bool over;

/* Keeps every lock of the library busy that a fork could find locked. */
static void *meddle(void *seed)
{
    pl_lock *lock = check_lock(client, seed ? "busy" : "busier");
    for (int i = 0; !atomic_load(&over); i++) {
        pl_lock_options *options = NULL;
        pl_error *error = NULL;
        pl_lock *short_lived = check_lock(client, "short-lived");
        ANSWERS(PL_OK, pl_lock_options_new(&options, &error));
        if (pl_lock_acquire(lock, 1000, &error) == PL_OK)
            pl_lock_release(lock, NULL);
        pl_error_free(error);
        (void)pl_lock_is_held(mine);
        pl_lock_options_free(options);
        pl_lock_free(short_lived);
    }
    pl_lock_free(lock);
    return NULL;
}

/* A child must never wait for a thread that it does not have. */
static void as_child_of_many(const char *url)
{
    alarm(20);
    char id[PL_HOLDER_ID_SIZE];
    uint64_t token;
    pl_lock *lock;
    int fd;
    pl_event *event;
    pl_lost_callback none = {NULL, NULL, NULL};
    pl_acquired_callback nobody = {NULL, NULL, NULL};
    CHECK(!pl_lock_is_held(mine));
    ANSWERS(PL_FORKED, pl_lock_acquire(mine, 10, &error));
    ANSWERS(PL_FORKED, pl_lock_try_acquire(mine, &error));
    ANSWERS(PL_FORKED, pl_lock_acquire_start(mine, PL_MODE_NONE, 10, nobody, &error));
    ANSWERS(PL_FORKED, pl_lock_release(mine, &error));
    ANSWERS(PL_FORKED, pl_lock_release_wait(mine, 10, &error));
    ANSWERS(PL_FORKED, pl_lock_verify(mine, 10, &error));
    ANSWERS(PL_FORKED, pl_lock_holder_id(mine, id, sizeof id, &error));
    ANSWERS(PL_FORKED, pl_lock_client_name(mine, id, sizeof id, &error));
    ANSWERS(PL_FORKED, pl_lock_fencing_token(mine, &token, &error));
    ANSWERS(PL_FORKED, pl_lock_on_lost(mine, none, &error));
    ANSWERS(PL_FORKED, pl_lock_new(client, "new", NULL, &lock, &error));
    ANSWERS(PL_FORKED, pl_client_ping(client, 10, NULL, &error));
    ANSWERS(PL_FORKED, pl_client_event_fd(client, &fd, &error));
    ANSWERS(PL_FORKED, pl_client_next_event(client, 0, &event, &error));
    pl_lock_cancel(mine);
    pl_lock_free(mine);
    pl_client_free(client);
    pl_client *own = check_client(url);
    lock = check_lock(own, "of a child");
    ANSWERS(PL_OK, pl_lock_acquire(lock, 10000, &error));
    pl_lock_free(lock);
    pl_client_free(own);
    _exit(0);
}

static void many_forks(const char *url)
{
    enum { THREADS = 4, FORKS = 150 };
    pthread_t threads[THREADS];
    mine = check_lock(client, "mine");
    ANSWERS(PL_OK, pl_lock_acquire(mine, 1000, &error));
    for (long i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, meddle, (void *)(i % 2)) == 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            as_child_of_many(url);
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CHECK(pl_lock_is_held(mine));
    }
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    ANSWERS(PL_OK, pl_lock_verify(mine, 5000, &error));
    pl_lock_free(mine);
    pl_client_free(client);
}

/* What daemon(3) leaves behind is a parent that is gone, and its locks with it. */
static void become_daemon(const char *url)
{
    mine = check_lock(client, "forks");
    ANSWERS(PL_OK, pl_lock_acquire(mine, 1000, &error));
    CHECK(daemon(1, 1) == 0);
    ANSWERS(PL_FORKED, pl_lock_release(mine, &error));
    client = check_client(url);
    mine = check_lock(client, "forks");
    /* The lock of the parent is free at once. */
    ANSWERS(PL_OK, pl_lock_acquire(mine, 2000, &error));
    printf("child %d\n", (int)getpid());
    fflush(stdout);
    linger();
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    client = check_client(argv[1]);
    if (strcmp(argv[2], "many") == 0)
        many_forks(argv[1]);
    else if (strcmp(argv[2], "daemon") == 0)
        become_daemon(argv[1]);
    else
        one_fork(argv[2]);
    return 0;
}
