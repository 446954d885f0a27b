/* A child of a process that holds, waits for nobody, and disturbs nobody. argv[1] is the server's URL. */
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#ifndef VALGRIND_CLO_CHANGE
#define VALGRIND_CLO_CHANGE(option) (void)(option)
#endif

static bool is_child;

/* What belonged to the parent's threads nobody can free in the child. A leak sanitizer, where there is
 * one, asks this before it looks; valgrind has to be told. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return is_child;
}

static void as_child(const char *url, pl_client *client, pl_lock *held, pl_lock *idle)
{
    pl_lock *lock = NULL;
    char id[PL_HOLDER_ID_SIZE];

    CHECK(!pl_lock_is_held(held));
    ANSWERS(PL_FORKED, pl_lock_release(held, &error));
    ANSWERS(PL_FORKED, pl_lock_acquire(idle, 1000, &error));
    ANSWERS(PL_FORKED, pl_lock_new(client, "forked", NULL, &lock, &error));
    ANSWERS(PL_FORKED, pl_client_ping(client, 1000, NULL, &error));
    (void)pl_lock_holder_id(held, id, sizeof id, NULL);
    pl_lock_cancel(idle);
    pl_lock_free(held);
    pl_lock_free(idle);
    pl_client_free(client);

    /* What the child makes for itself works. */
    client = check_client(url);
    lock = check_lock(client, "forked");
    ANSWERS(PL_LOCKED, pl_lock_try_acquire(lock, &error));
    pl_lock *other = check_lock(client, "of the child");
    ANSWERS(PL_OK, pl_lock_acquire(other, 1000, &error));
    CHECK(pl_lock_is_held(other));
    ANSWERS(PL_OK, pl_lock_release_wait(other, 1000, &error));
    pl_lock_free(lock);
    pl_lock_free(other);
    pl_client_free(client);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    pl_client *client = check_client(argv[1]);
    pl_lock *held = check_lock(client, "forked"), *idle = check_lock(client, "idle");

    ANSWERS(PL_OK, pl_lock_acquire(held, 1000, &error));
    ANSWERS(PL_OK, pl_lock_acquire(idle, 1000, &error));
    ANSWERS(PL_OK, pl_lock_release_wait(idle, 1000, &error));
    for (int round = 0; round < 5; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            is_child = true;
            VALGRIND_CLO_CHANGE("--leak-check=no");
            as_child(argv[1], client, held, idle);
            exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CHECK(pl_lock_is_held(held));
    }
    check_sleep(100);

    /* Still answering, still holding, still able to wait. */
    pl_lock *rival = check_lock(client, "forked");
    ANSWERS(PL_TIMEOUT, pl_lock_acquire(rival, 100, &error));
    ANSWERS(PL_OK, pl_lock_release_wait(held, 1000, &error));
    ANSWERS(PL_OK, pl_lock_acquire(rival, 1000, &error));
    pl_lock_free(rival);
    pl_lock_free(held);
    pl_lock_free(idle);
    pl_client_free(client);
    return 0;
}
