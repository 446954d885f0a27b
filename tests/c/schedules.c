/* Threads and lost callbacks do whatever they like, at random and again with the same seed, with a
 * few locks and clients that are made and freed all the time, while connections are killed. Nothing
 * may crash, hang, leak, or answer what it should not. argv[1] is the server's URL.
 *
 *   PORTALOCK_SCHEDULES_SECONDS  how long (default 3)
 *   PORTALOCK_SCHEDULES_SEED     the seed (default: of the time)
 *   PORTALOCK_SCHEDULES_STUCK    how many seconds one call may take (default 30)
 *
 * To have a function called more, write an action and put it into the table of actions.h. */
#include "check.h"
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { THREADS = 8, LOCKS = 4, CLIENTS = 2, STAGES = 16 };

static const char *url;
static const char *const NAMES[] = {"schedule one", "schedule-two"};
static _Atomic(pl_client *) clients[CLIENTS];
static _Atomic(pl_lock *) locks[LOCKS];
static atomic_bool over;
static atomic_int running = THREADS;
static atomic_long callbacks_set, callbacks_called, callbacks_dropped, grants;

/* --- Dice -------------------------------------------------------------------------------------- */

static uint64_t roll(uint64_t *dice)
{
    /* splitmix64: every seed is a good one. */
    uint64_t mixed = (*dice += 0x9e3779b97f4a7c15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

static unsigned below(uint64_t *dice, unsigned bound)
{
    return (unsigned)(roll(dice) % bound);
}

static long number_from(const char *variable, long otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? atol(text) : otherwise;
}

#include "actions.h"

/* --- Who does what, and since when ------------------------------------------------------------- */

/* One for each thread that acts, the one that runs callbacks included. */
static struct stage {
    _Atomic(const struct action *) action;
    atomic_llong since;
} stages[STAGES];

static _Thread_local struct stage *stage;

static const struct action *any_action(uint64_t *dice)
{
    static const size_t count = sizeof ACTIONS / sizeof *ACTIONS;
    unsigned sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += ACTIONS[i].weight;
    unsigned left = below(dice, sum);
    const struct action *action = ACTIONS;
    while (left >= action->weight)
        left -= action++->weight;
    return action;
}

static struct stage *take_stage(void)
{
    static atomic_uint taken;
    unsigned mine = atomic_fetch_add(&taken, 1);
    CHECK(mine < STAGES);
    return &stages[mine];
}

static void act(uint64_t *dice)
{
    if (!stage)
        stage = take_stage();
    /* An action may come to run callbacks of its own accord. */
    const struct action *outer = atomic_load(&stage->action), *action = any_action(dice);
    atomic_store(&stage->since, check_ms());
    atomic_store(&stage->action, action);
    action->act(dice);
    atomic_store(&stage->since, check_ms());
    atomic_store(&stage->action, outer);
}

static void *run(void *seed)
{
    uint64_t dice = *(uint64_t *)seed;
    while (!atomic_load(&over))
        act(&dice);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

/* Ends the program if somebody is stuck. */
static void look_after(long seconds)
{
    for (int i = 0; i < STAGES; i++) {
        const struct action *action = atomic_load(&stages[i].action);
        if (action && check_ms() - atomic_load(&stages[i].since) > seconds * 1000) {
            fprintf(stderr, "stuck for more than %ld s: %s\n", seconds, action->name);
            abort();
        }
    }
}

/* --- Beginning and end ------------------------------------------------------------------------- */

static int open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir != NULL);
    int count = 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* Waits until all threads have seen that it is over: whoever waits for ever has to be told. */
static void finish(const pthread_t *threads, long stuck)
{
    atomic_store(&over, true);
    while (atomic_load(&running) > 0) {
        for (int i = 0; i < LOCKS; i++)
            pl_lock_cancel(atomic_load(&locks[i]));
        look_after(stuck);
        check_sleep(5);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void free_all(void)
{
    for (int i = 0; i < LOCKS; i++)
        pl_lock_free(atomic_exchange(&locks[i], NULL));
    for (int i = 0; i < CLIENTS; i++)
        pl_client_free(atomic_exchange(&clients[i], NULL));
}

/* A callback that was running may still have made a lock. */
static void settle(int files, long stuck)
{
    long long until = check_ms() + stuck * 1000;
    for (;;) {
        free_all();
        bool dropped = atomic_load(&callbacks_dropped) == atomic_load(&callbacks_set);
        if (dropped && open_files() <= files)
            return;
        if (check_ms() > until) {
            fprintf(stderr, "%ld callbacks set, %ld dropped; %d files open, %d before\n",
                    atomic_load(&callbacks_set), atomic_load(&callbacks_dropped), open_files(),
                    files);
            abort();
        }
        check_sleep(20);
    }
}

/* What all that has left behind is in nobody's way. */
static void check_aftermath(void)
{
    pl_client *client = check_client(url);
    for (int i = 0; i < 2; i++) {
        pl_lock *last = check_lock(client, NAMES[i]);
        pl_holders *left = NULL;
        ANSWERS(PL_OK, pl_lock_acquire(last, 10000, &error));
        ANSWERS(PL_OK, pl_probe_holders(client, NAMES[i], 5000, &left, &error));
        CHECK(pl_holders_count(left) == 1);
        pl_holders_free(left);
        pl_lock_free(last);
    }
    pl_client_free(client);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    url = argv[1];
    long seconds = number_from("PORTALOCK_SCHEDULES_SECONDS", 3);
    long stuck = number_from("PORTALOCK_SCHEDULES_STUCK", 30);
    uint64_t seed = (uint64_t)number_from("PORTALOCK_SCHEDULES_SEED", (long)time(NULL));
    uint64_t dice = seed;
    fprintf(stderr, "schedules: PORTALOCK_SCHEDULES_SEED=%llu\n", (unsigned long long)seed);

    /* What the library keeps for ever is there from here on. */
    check_aftermath();
    int files = open_files();
    pthread_t threads[THREADS];
    uint64_t seeds[THREADS];
    for (int i = 0; i < CLIENTS; i++)
        atomic_store(&clients[i], new_client(&dice));
    for (int i = 0; i < LOCKS; i++)
        atomic_store(&locks[i], new_lock(&dice));
    for (int i = 0; i < THREADS; i++) {
        seeds[i] = roll(&dice);
        CHECK(pthread_create(&threads[i], NULL, run, &seeds[i]) == 0);
    }
    for (long long until = check_ms() + seconds * 1000; check_ms() < until;) {
        check_sleep(5 + below(&dice, 60));
        check_ask("kill subscribers");
        look_after(stuck);
    }
    finish(threads, stuck);
    settle(files, stuck);
    check_aftermath();
    fprintf(stderr, "schedules: %ld callbacks set, %ld called; %ld grants to those alone\n",
            atomic_load(&callbacks_set), atomic_load(&callbacks_called), atomic_load(&grants));
    return 0;
}
