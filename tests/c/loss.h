/* A lock that is lost because its server is another: what the tests in C of sentinels and clusters share. */
#ifndef LOSS_H
#define LOSS_H

#include "check.h"
#include <stdatomic.h>

static atomic_int loss_reason;

static void loss_told(void *context, const pl_loss *loss)
{
    CHECK(context == &loss_reason && loss->message[0] != '\0');
    atomic_store(&loss_reason, loss->reason);
}

static inline void loss_listen(pl_lock *lock)
{
    pl_lost_callback callback = {&loss_reason, loss_told, NULL};
    ANSWERS(PL_OK, pl_lock_on_lost(lock, callback, &error));
}

/* Has the driver of the tests change the server, waits for the loss, and tells why it was. */
static inline int loss_by(const char *change, pl_lock *lock)
{
    check_ask(change);
    for (int i = 0; i < 40000 && atomic_load(&loss_reason) == 0; i++)
        check_sleep(1);
    CHECK(!pl_lock_is_held(lock));
    return atomic_load(&loss_reason);
}

static inline void loss_urls_refused(const char *const *urls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        pl_client *client = NULL;
        ANSWERS(PL_INVALID, pl_client_new(urls[i], NULL, &client, &error));
        CHECK(client == NULL);
    }
}

#endif
