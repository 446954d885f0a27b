/* What a lock goes through, against a real server. argv[1] is its URL. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

static const char *url;

static void basics(void)
{
    pl_client *client = check_client(url);
    pl_lock *one = check_lock(client, "basics"), *two = check_lock(client, "basics");
    char id[PL_HOLDER_ID_SIZE], again[PL_HOLDER_ID_SIZE], name[128], expected[160];
    int64_t rtt = -1;

    ANSWERS(PL_OK, pl_client_ping(client, 5000, &rtt, &error));
    CHECK(rtt >= 0);
    ANSWERS(PL_OK, pl_lock_acquire(one, PL_DEFAULT, &error));
    CHECK(pl_lock_is_held(one) && !pl_lock_is_held(two));
    ANSWERS(PL_ACTIVE, pl_lock_acquire(one, 10, &error));
    ANSWERS(PL_OK, pl_lock_holder_id(one, id, sizeof id, &error));
    CHECK(strlen(id) == 32);
    ANSWERS(PL_OK, pl_lock_client_name(one, name, sizeof name, &error));
    snprintf(expected, sizeof expected, "basics-lock-%s", id);
    CHECK(strcmp(name, expected) == 0);
    ANSWERS(PL_INVALID, pl_lock_holder_id(one, id, 32, &error));

    ANSWERS(PL_LOCKED, pl_lock_try_acquire(two, &error));
    ANSWERS(PL_LOCKED, pl_lock_acquire(two, 0, &error));
    ANSWERS(PL_LOCKED, pl_lock_try_acquire_shared(two, &error));
    long long begun = check_ms();
    ANSWERS(PL_TIMEOUT, pl_lock_acquire(two, 200, &error));
    long long took = check_ms() - begun;
    CHECK(took >= 200 && took < 700);

    ANSWERS(PL_OK, pl_lock_release(one, &error));
    ANSWERS(PL_NOT_HELD, pl_lock_release(one, &error));
    CHECK(!pl_lock_is_held(one));
    ANSWERS(PL_OK, pl_lock_acquire(two, 5000, &error));
    ANSWERS(PL_OK, pl_lock_holder_id(two, again, sizeof again, &error));
    CHECK(strcmp(id, again) != 0);
    ANSWERS(PL_OK, pl_lock_release_wait(two, 5000, &error));

    /* The client may go first. */
    pl_client_free(client);
    ANSWERS(PL_OK, pl_lock_acquire(one, PL_WAIT_FOREVER, &error));
    pl_lock_free(one);
    ANSWERS(PL_OK, pl_lock_acquire(two, 5000, &error));
    pl_lock_free(two);
}

static void readers(void)
{
    pl_client *client = check_client(url);
    pl_lock *one = check_lock(client, "readers"), *two = check_lock(client, "readers");
    pl_lock_options *options = NULL;
    pl_lock *writer = NULL;

    ANSWERS(PL_OK, pl_lock_options_new(&options, &error));
    ANSWERS(PL_OK, pl_lock_options_set_fail_when_locked(options, true, &error));
    ANSWERS(PL_OK, pl_lock_options_set_fencing(options, true, &error));
    ANSWERS(PL_OK, pl_lock_new(client, "readers", options, &writer, &error));
    pl_lock_options_free(options);

    ANSWERS(PL_OK, pl_lock_acquire_shared(one, 1000, &error));
    ANSWERS(PL_OK, pl_lock_try_acquire_shared(two, &error));
    ANSWERS(PL_LOCKED, pl_lock_acquire(writer, PL_WAIT_FOREVER, &error));
    ANSWERS(PL_OK, pl_lock_release_wait(one, 1000, &error));
    ANSWERS(PL_OK, pl_lock_release_wait(two, 1000, &error));
    ANSWERS(PL_OK, pl_lock_acquire_mode(writer, PL_MODE_EXCLUSIVE, 1000, &error));
    uint64_t first = 0, second = 0;
    ANSWERS(PL_OK, pl_lock_fencing_token(writer, &first, &error));
    ANSWERS(PL_OK, pl_lock_release_wait(writer, 1000, &error));
    ANSWERS(PL_OK, pl_lock_acquire(writer, 1000, &error));
    ANSWERS(PL_OK, pl_lock_fencing_token(writer, &second, &error));
    CHECK(second > first);
    pl_lock_free(writer);
    pl_lock_free(one);
    pl_lock_free(two);
    pl_client_free(client);
}

static void *wait_for(void *lock)
{
    pl_status *answer = malloc(sizeof *answer);
    *answer = pl_lock_acquire(lock, PL_WAIT_FOREVER, NULL);
    return answer;
}

static pl_status result_of(pthread_t thread)
{
    void *answer;
    CHECK(pthread_join(thread, &answer) == 0);
    pl_status status = *(pl_status *)answer;
    free(answer);
    return status;
}

static void other_threads(void)
{
    pl_client *client = check_client(url);
    pl_lock *holder = check_lock(client, "threads"), *waiter = check_lock(client, "threads");
    pthread_t thread;

    ANSWERS(PL_OK, pl_lock_acquire(holder, 1000, &error));
    CHECK(pthread_create(&thread, NULL, wait_for, waiter) == 0);
    check_sleep(50);
    pl_lock_cancel(waiter);
    CHECK(result_of(thread) == PL_CANCELLED);

    /* Freed while somebody waits in it. */
    CHECK(pthread_create(&thread, NULL, wait_for, waiter) == 0);
    check_sleep(50);
    pl_lock_free(waiter);
    CHECK(result_of(thread) == PL_CANCELLED);

    /* Freed while held: free for the next. */
    waiter = check_lock(client, "threads");
    CHECK(pthread_create(&thread, NULL, wait_for, waiter) == 0);
    check_sleep(50);
    pl_lock_free(holder);
    CHECK(result_of(thread) == PL_OK);
    CHECK(pl_lock_is_held(waiter));
    pl_lock_free(waiter);
    pl_client_free(client);
}

struct watch {
    atomic_int calls, drops;
    pl_lock *to_free;
};

static void on_lost(void *context, const pl_loss *loss)
{
    struct watch *watch = context;
    CHECK(loss->reason == PL_LOSS_DISCONNECTED && loss->message[0] != '\0');
    if (watch->to_free)
        pl_lock_free(watch->to_free);
    atomic_fetch_add(&watch->calls, 1);
}

static void on_drop(void *context)
{
    struct watch *watch = context;
    atomic_fetch_add(&watch->drops, 1);
}

static void await(atomic_int *count, int wanted)
{
    long long until = check_ms() + 5000;
    while (atomic_load(count) < wanted && check_ms() < until)
        check_sleep(1);
    check_sleep(50);
    CHECK(atomic_load(count) == wanted);
}

/* Has the server end the connection of whoever holds this lock. */
static void lose(pl_lock *lock)
{
    char name[128], order[160];
    ANSWERS(PL_OK, pl_lock_client_name(lock, name, sizeof name, &error));
    snprintf(order, sizeof order, "kill %s", name);
    check_ask(order);
}

static void loss(void)
{
    pl_client *client = check_client(url);
    pl_lock *lock = check_lock(client, "loss");
    struct watch watch = {0, 0, NULL};
    pl_lost_callback callback = {&watch, on_lost, on_drop};

    ANSWERS(PL_OK, pl_lock_on_lost(lock, callback, &error));
    for (int round = 1; round <= 3; round++) {
        ANSWERS(PL_OK, pl_lock_acquire(lock, 1000, &error));
        lose(lock);
        await(&watch.calls, round);
        CHECK(!pl_lock_is_held(lock));
        ANSWERS(PL_LOST, pl_lock_release(lock, &error));
        ANSWERS(PL_NOT_HELD, pl_lock_release(lock, &error));
    }
    CHECK(watch.drops == 0);

    /* Taken back: not called any more, and dropped. */
    ANSWERS(PL_OK, pl_lock_on_lost(lock, (pl_lost_callback){NULL, NULL, NULL}, &error));
    CHECK(watch.drops == 1);
    ANSWERS(PL_OK, pl_lock_acquire(lock, 1000, &error));
    lose(lock);
    check_sleep(100);
    CHECK(watch.calls == 3);

    /* A loss nobody asked about does not stand in the way; the callback may free the very lock. */
    watch.to_free = lock;
    ANSWERS(PL_OK, pl_lock_on_lost(lock, callback, &error));
    ANSWERS(PL_OK, pl_lock_acquire(lock, 1000, &error));
    lose(lock);
    await(&watch.calls, 4);
    await(&watch.drops, 2);
    ANSWERS(PL_INVALID, pl_lock_acquire(lock, 1000, &error));
    pl_client_free(client);
}

static void holders(void)
{
    pl_client *client = check_client(url);
    pl_lock *holder = NULL, *waiter = check_lock(client, "view");
    pl_lock_options *options = NULL;
    pl_holders *list = NULL;
    pthread_t thread;

    ANSWERS(PL_OK, pl_probe_holders(client, "view", 1000, &list, &error));
    CHECK(pl_holders_count(list) == 0);
    pl_holders_free(list);

    ANSWERS(PL_OK, pl_lock_options_new(&options, &error));
    ANSWERS(PL_OK, pl_lock_options_set_label(options, "the one", &error));
    ANSWERS(PL_OK, pl_lock_new(client, "view", options, &holder, &error));
    ANSWERS(PL_OK, pl_lock_acquire(holder, 1000, &error));
    CHECK(pthread_create(&thread, NULL, wait_for, waiter) == 0);
    check_sleep(100);

    ANSWERS(PL_OK, pl_probe_holders(client, "view", 1000, &list, &error));
    CHECK(pl_holders_count(list) == 2 && pl_holders_at(list, 2) == NULL);
    const pl_holder *first = pl_holders_at(list, 0), *second = pl_holders_at(list, 1);
    char id[PL_HOLDER_ID_SIZE];
    ANSWERS(PL_OK, pl_lock_holder_id(holder, id, sizeof id, &error));
    CHECK(strcmp(first->id, id) == 0 && strcmp(first->label, "the one") == 0);
    CHECK(first->mode == PL_MODE_EXCLUSIVE && first->state == PL_STATE_HELD);
    CHECK(!first->legacy && !first->foreign && first->host && first->pid > 0);
    CHECK(first->since_ms > 1700000000000);
    CHECK(second->mode == PL_MODE_NONE && second->wants == PL_MODE_EXCLUSIVE);
    CHECK(second->state == PL_STATE_WAITING && second->label == NULL);
    pl_holders_free(list);
    pl_holders_free(list);
    CHECK(pl_holders_count(list) == 0);

    uint32_t alive = 9, killed = 9;
    ANSWERS(PL_OK, pl_reap_silent(client, "view", 1000, &alive, &killed, &error));
    CHECK(alive == 2 && killed == 0);
    pl_lock_free(holder);
    CHECK(result_of(thread) == PL_OK);

    /* Nobody has to say who and where it is. */
    pl_lock_free(waiter);
    ANSWERS(PL_OK, pl_lock_options_set_disclose(options, false, &error));
    ANSWERS(PL_OK, pl_lock_new(client, "view", options, &holder, &error));
    ANSWERS(PL_OK, pl_lock_acquire(holder, 1000, &error));
    ANSWERS(PL_OK, pl_probe_holders(client, "view", 1000, &list, &error));
    first = pl_holders_at(list, 0);
    CHECK(!first->host && !first->label && first->pid == -1 && first->since_ms == -1);
    pl_holders_free(list);
    pl_lock_options_free(options);
    pl_lock_free(holder);
    pl_client_free(client);
}

static void numbers(void)
{
    pl_client *client = check_client(url);
    pl_lock *first = check_lock(client, "counted"), *second = check_lock(client, "counted");
    pl_stats *stats = NULL;
    pthread_t thread;

    ANSWERS(PL_OK, pl_lock_acquire(first, 1000, &error));
    CHECK(pthread_create(&thread, NULL, wait_for, second) == 0);
    check_sleep(100);
    ANSWERS(PL_OK, pl_lock_release(first, &error));
    CHECK(result_of(thread) == PL_OK);
    ANSWERS(PL_OK, pl_client_stats(client, &stats, &error));
    CHECK(pl_stats_value(stats, PL_STAT_ACQUIRES) == 2 && pl_stats_value(stats, PL_STAT_HELD) == 1);
    CHECK(pl_stats_value(stats, PL_STAT_HAND_OVERS) == 1 && pl_stats_value(stats, PL_STAT_WAITS) == 1);
    CHECK(pl_stats_value(stats, PL_STAT_CONNECTIONS) == 2);
    uint64_t longest = pl_stats_value(stats, PL_STAT_WAIT_MAX_US);
    CHECK(longest > 50000 && longest == pl_stats_value(stats, PL_STAT_WAIT_SUM_US));
    CHECK(pl_stats_wait_percentile_us(stats, 99) == (int64_t)longest);
    size_t last = pl_stats_wait_buckets(stats) - 1;
    CHECK(pl_stats_wait_bound_us(stats, 0) == 1000 && pl_stats_wait_bucket(stats, 0) == 0);
    CHECK(pl_stats_wait_bound_us(stats, last) == 300000000 && pl_stats_wait_bucket(stats, last) == 1);
    CHECK(strcmp(pl_stat_name(PL_STAT_HAND_OVERS), "hand_overs") == 0);
    pl_stats_free(stats);
    pl_lock_free(first);
    pl_lock_free(second);
    pl_client_free(client);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    url = argv[1];
    basics();
    readers();
    other_threads();
    loss();
    holders();
    numbers();
    return 0;
}
