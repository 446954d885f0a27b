/* Eight threads do whatever they like with three locks for some seconds. argv[1] is the server's URL. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 8, LOCKS = 3 };

static pl_client *client;
static _Atomic(pl_lock *) locks[LOCKS];
static long long until;

static void on_lost(void *context, const pl_loss *loss)
{
    (void)context, (void)loss;
}

static void *meddle(void *seed)
{
    unsigned state = *(unsigned *)seed;
    while (check_ms() < until) {
        state = state * 1103515245u + 12345u;
        unsigned dice = state >> 16;
        int which = (int)(dice % LOCKS);
        pl_lock *lock = atomic_load(&locks[which]);
        switch (dice / LOCKS % 10) {
        case 0:
        case 1:
        case 2:
            pl_lock_acquire(lock, (int64_t)(dice % 20), NULL);
            break;
        case 3:
            pl_lock_try_acquire_shared(lock, NULL);
            break;
        case 4:
        case 5:
            pl_lock_release(lock, NULL);
            break;
        case 6:
            pl_lock_release_wait(lock, 5, NULL);
            break;
        case 7:
            pl_lock_cancel(lock);
            break;
        case 8:
            pl_lock_on_lost(lock, (pl_lost_callback){NULL, on_lost, NULL}, NULL);
            break;
        default: {
            pl_lock *fresh = check_lock(client, "meddled");
            pl_lock_free(atomic_exchange(&locks[which], fresh));
            break;
        }
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    client = check_client(argv[1]);
    until = check_ms() + 3000;
    pthread_t threads[THREADS];
    unsigned seeds[THREADS];
    for (int i = 0; i < LOCKS; i++)
        atomic_store(&locks[i], check_lock(client, "meddled"));
    for (unsigned i = 0; i < THREADS; i++) {
        seeds[i] = i * 7919u + 1u;
        CHECK(pthread_create(&threads[i], NULL, meddle, &seeds[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < LOCKS; i++)
        pl_lock_free(atomic_load(&locks[i]));

    pl_lock *last = check_lock(client, "meddled");
    ANSWERS(PL_OK, pl_lock_acquire(last, 5000, &error));
    pl_holders *left = NULL;
    ANSWERS(PL_OK, pl_probe_holders(client, "meddled", 1000, &left, &error));
    CHECK(pl_holders_count(left) == 1);
    pl_holders_free(left);
    pl_lock_free(last);
    pl_client_free(client);
    return 0;
}
