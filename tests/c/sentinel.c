/* A lock whose master is handed over to another server. argv[1] is the URL of the sentinels. */
#include "loss.h"
#include <sys/wait.h>
#include <unistd.h>

static void refused(void)
{
    static const char *const urls[] = {"redis-sentinel://", "redis-sentinel://h", "redis-sentinel://h/",
                                       "redis-sentinel://h/m?what=1"};
    loss_urls_refused(urls, sizeof urls / sizeof *urls);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    refused();
    pl_client *client = check_client(argv[1]);
    pl_lock *lock = check_lock(client, "jobs");
    loss_listen(lock);
    ANSWERS(PL_OK, pl_lock_acquire(lock, 40000, &error));
    CHECK(pl_lock_is_held(lock));

    int why = loss_by("hand over", lock);
    /* The sentinels end the connections at the old master, and tell of the new one: which comes first is open. */
    CHECK(why == PL_LOSS_DISCONNECTED || why == PL_LOSS_DEMOTED);
    ANSWERS(PL_LOST, pl_lock_release(lock, &error));
    ANSWERS(PL_OK, pl_lock_acquire(lock, 40000, &error));
    check_ask("look");
    ANSWERS(PL_OK, pl_lock_release_wait(lock, 5000, &error));

    /* A child has no watch, and is not held up by that of its parent. */
    pid_t child = fork();
    if (child == 0) {
        ANSWERS(PL_FORKED, pl_lock_acquire(lock, 1000, &error));
        pl_lock_free(lock);
        pl_client_free(client);
        client = check_client(argv[1]);
        lock = check_lock(client, "child's");
        ANSWERS(PL_OK, pl_lock_acquire(lock, 40000, &error));
        _exit(0);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);

    /* The watch holds up neither this, nor the end of the process. */
    long long begun = check_ms();
    pl_lock_free(lock);
    pl_client_free(client);
    CHECK(check_ms() - begun < 500);
    return 0;
}
