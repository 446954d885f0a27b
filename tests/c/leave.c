/* Ends in the way that argv[2] names, with a lock held. argv[1] is the server's URL. */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

/* Not on the stack, which is gone when leaks are looked for, and not optimised away. */
static pl_client *volatile client;
static pl_lock *volatile lock;

static void *end_thread(void *unused)
{
    (void)unused;
    pthread_exit(NULL);
}

static void *wait_for_it(void *name)
{
    pl_lock *waiter = check_lock(client, name);
    pl_lock_acquire(waiter, PL_WAIT_FOREVER, NULL);
    return NULL;
}

static void exit_from_callback(void *unused, pl_status status, const char *message)
{
    (void)unused;
    (void)message;
    exit(status == PL_OK ? 0 : 1);
}

/* What runs at the exit may still use the library. */
static void at_exit(void)
{
    CHECK(pl_lock_is_held(lock));
    ANSWERS(PL_OK, pl_lock_release_wait(lock, 1000, &error));
    ANSWERS(PL_OK, pl_lock_acquire(lock, 1000, &error));
    pl_lock_free(lock);
    pl_client_free(client);
}

static void *exit_here(void *unused)
{
    (void)unused;
    exit(0);
}

/* Writes to connections that the driver of the tests ends all the time: the signal would be the end. */
static void write_to_the_closed(void)
{
    CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    for (long long end = check_ms() + 1500; check_ms() < end;) {
        pl_lock_release(lock, NULL);
        pl_lock_acquire(lock, 500, NULL);
    }
}

/* exit() while others wait, are called back, or call: nobody may hold it up. */
static void leave_busily(const char *way)
{
    pthread_t thread;
    if (strcmp(way, "waiting") == 0) {
        CHECK(pthread_create(&thread, NULL, wait_for_it, "leaving") == 0);
        check_sleep(100);
        exit(0);
    } else if (strcmp(way, "callback") == 0) {
        pl_lock *other = check_lock(client, "another");
        pl_acquired_callback callback = {NULL, exit_from_callback, NULL};
        ANSWERS(PL_OK, pl_lock_acquire_start(other, PL_MODE_NONE, 1000, callback, &error));
        check_sleep(10000);
    } else if (strcmp(way, "atexit") == 0) {
        atexit(at_exit);
        exit(0);
    } else if (strcmp(way, "thread") == 0) {
        CHECK(pthread_create(&thread, NULL, exit_here, NULL) == 0);
        pthread_join(thread, NULL);
    } else if (strcmp(way, "sigpipe") == 0) {
        write_to_the_closed();
        exit(0);
    } else if (strcmp(way, "killed") == 0) {
        raise(SIGTERM);
    }
    CHECK(!"a way out");
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    client = check_client(argv[1]);
    lock = check_lock(client, "leaving");
    ANSWERS(PL_OK, pl_lock_acquire(lock, 1000, &error));
    check_ask("held");
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, end_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    if (strcmp(argv[2], "return") == 0)
        return 0;
    if (strcmp(argv[2], "exit") == 0)
        exit(0);
    if (strcmp(argv[2], "_exit") == 0)
        _exit(0);
    if (strcmp(argv[2], "pthread_exit") == 0)
        pthread_exit(NULL);
    if (strcmp(argv[2], "abort") == 0)
        abort();
    leave_busily(argv[2]);
}
