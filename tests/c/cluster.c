/* A lock whose slot is moved to another node of a cluster. argv[1] is the URL of a node. */
#include "loss.h"

static void refused(void)
{
    static const char *const urls[] = {"redis-cluster://", "redis-cluster://h,", "redis-cluster://h/1",
                                       "redis-cluster://h?what=1"};
    loss_urls_refused(urls, sizeof urls / sizeof *urls);
    pl_client *client = NULL;
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
    loss_listen(lock);
    ANSWERS(PL_OK, pl_lock_try_acquire(lock, &error));
    CHECK(pl_lock_is_held(lock));

    int why = loss_by("move the slot", lock);
    CHECK(why == PL_LOSS_UNSUBSCRIBED || why == PL_LOSS_DEMOTED);
    ANSWERS(PL_LOST, pl_lock_release(lock, &error));
    ANSWERS(PL_OK, pl_lock_try_acquire(lock, &error));
    check_ask("look");
    ANSWERS(PL_OK, pl_lock_release_wait(lock, 5000, &error));
    pl_lock_free(lock);
    pl_client_free(client);
    return 0;
}
