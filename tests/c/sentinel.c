/* A lock whose master is handed over to another server. argv[1] is the URL of the sentinels. */
#include "check.h"
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int reason;

static void on_lost(void *context, const pl_loss *loss)
{
    CHECK(context == &reason && loss->message[0] != '\0');
    atomic_store(&reason, loss->reason);
}

static void refused(void)
{
    static const char *const urls[] = {"redis-sentinel://", "redis-sentinel://h", "redis-sentinel://h/",
                                       "redis-sentinel://h/m?what=1"};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        pl_client *client = NULL;
        ANSWERS(PL_INVALID, pl_client_new(urls[i], NULL, &client, &error));
        CHECK(client == NULL);
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    refused();
    pl_client *client = check_client(argv[1]);
    pl_lock *lock = check_lock(client, "jobs");
    pl_lost_callback callback = {&reason, on_lost, NULL};
    ANSWERS(PL_OK, pl_lock_on_lost(lock, callback, &error));
    ANSWERS(PL_OK, pl_lock_acquire(lock, 40000, &error));
    CHECK(pl_lock_is_held(lock));

    check_ask("hand over");
    for (int i = 0; i < 40000 && atomic_load(&reason) == 0; i++)
        check_sleep(1);
    /* The sentinels end the connections at the old master, and tell of the new one: which comes first is open. */
    int why = atomic_load(&reason);
    CHECK(why == PL_LOSS_DISCONNECTED || why == PL_LOSS_DEMOTED);
    CHECK(!pl_lock_is_held(lock));
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
