/* A lock whose slot is moved to another node of a cluster. argv[1] is the URL of a node. */
#include "check.h"
#include <stdatomic.h>

static atomic_int reason;

static void on_lost(void *context, const pl_loss *loss)
{
    CHECK(context == &reason && loss->message[0] != '\0');
    atomic_store(&reason, loss->reason);
}

static void refused(void)
{
    static const char *const urls[] = {"redis-cluster://", "redis-cluster://h,", "redis-cluster://h/1",
                                       "redis-cluster://h?what=1"};
    pl_client *client = NULL;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        ANSWERS(PL_INVALID, pl_client_new(urls[i], NULL, &client, &error));
        CHECK(client == NULL);
    }
    pl_client_options *options = NULL;
    ANSWERS(PL_OK, pl_client_options_new(&options, &error));
    ANSWERS(PL_OK, pl_client_options_set_shared_connection(options, true, &error));
    ANSWERS(PL_UNSUPPORTED, pl_client_new("redis-cluster://h", options, &client, &error));
    CHECK(client == NULL);
    pl_client_options_free(options);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    refused();
    pl_client *client = check_client(argv[1]);
    pl_lock *lock = check_lock(client, "jobs");
    pl_lost_callback callback = {&reason, on_lost, NULL};
    ANSWERS(PL_OK, pl_lock_on_lost(lock, callback, &error));
    ANSWERS(PL_OK, pl_lock_try_acquire(lock, &error));
    CHECK(pl_lock_is_held(lock));

    check_ask("move the slot");
    for (int i = 0; i < 40000 && atomic_load(&reason) == 0; i++)
        check_sleep(1);
    int why = atomic_load(&reason);
    CHECK(why == PL_LOSS_UNSUBSCRIBED || why == PL_LOSS_DEMOTED);
    CHECK(!pl_lock_is_held(lock));
    ANSWERS(PL_LOST, pl_lock_release(lock, &error));
    ANSWERS(PL_OK, pl_lock_try_acquire(lock, &error));
    check_ask("look");
    ANSWERS(PL_OK, pl_lock_release_wait(lock, 5000, &error));
    pl_lock_free(lock);
    pl_client_free(client);
    return 0;
}
