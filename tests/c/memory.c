/* A unit test needs no server: the broker is in this process, and no forked child takes its own for it. */
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

static const char url[] = "memory://unit-test";

static void in_child(pl_lock *inherited)
{
    alarm(20);
    ANSWERS(PL_FORKED, pl_lock_try_acquire(inherited, &error));
    pl_lock_free(inherited);
    pl_client *client = NULL;
    ANSWERS(PL_FORKED, pl_client_new(url, NULL, &client, &error));
    client = check_client("memory://child");
    pl_lock *lock = check_lock(client, "job");
    ANSWERS(PL_OK, pl_lock_acquire(lock, 5000, &error));
    ANSWERS(PL_OK, pl_lock_release_wait(lock, 5000, &error));
    pl_lock_free(lock);
    pl_client_free(client);
}

int main(void)
{
    pl_client *client = check_client(url), *other = check_client(url);
    pl_lock *lock = check_lock(client, "job"), *second = check_lock(other, "job");
    ANSWERS(PL_OK, pl_lock_acquire(lock, 5000, &error));
    ANSWERS(PL_LOCKED, pl_lock_try_acquire(second, &error));

    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        in_child(lock);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);

    CHECK(pl_lock_is_held(lock));
    ANSWERS(PL_LOCKED, pl_lock_try_acquire(second, &error));
    ANSWERS(PL_OK, pl_lock_release(lock, &error));
    ANSWERS(PL_OK, pl_lock_acquire(second, 5000, &error));
    pl_lock_free(lock);
    pl_lock_free(second);
    pl_client_free(client);
    pl_client_free(other);
    return 0;
}
