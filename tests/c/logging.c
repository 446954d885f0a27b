/* What the log says, and to whom. argv[1] is the server's URL; with another argument there is no handler, and
   no order to the driver. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char lines[64 * 1024];
static unsigned count[PL_LOG_DEBUG + 1];
static atomic_uint drops;

static void take(void *context, pl_log_level level, const char *line)
{
    (void)context;
    CHECK(level > PL_LOG_OFF && level <= PL_LOG_DEBUG && strchr(line, '\n') == NULL);
    pthread_mutex_lock(&mutex);
    count[level]++;
    size_t used = strlen(lines);
    CHECK(used + strlen(line) + 2 < sizeof lines);
    snprintf(lines + used, sizeof lines - used, "%s\n", line);
    pthread_mutex_unlock(&mutex);
}

static void dropped(void *context)
{
    (void)context;
    atomic_fetch_add(&drops, 1);
}

static bool said(const char *words)
{
    pthread_mutex_lock(&mutex);
    bool found = strstr(lines, words) != NULL;
    pthread_mutex_unlock(&mutex);
    return found;
}

static unsigned said_up_to(pl_log_level level)
{
    unsigned sum = 0;
    pthread_mutex_lock(&mutex);
    for (pl_log_level each = PL_LOG_ERROR; each <= level; each++)
        sum += count[each];
    pthread_mutex_unlock(&mutex);
    return sum;
}

static void listen_at(pl_log_level level)
{
    pl_log_handler handler = {NULL, take, dropped};
    ANSWERS(PL_OK, pl_set_log_handler(level, handler, &error));
    pthread_mutex_lock(&mutex);
    lines[0] = '\0';
    memset(count, 0, sizeof count);
    pthread_mutex_unlock(&mutex);
}

static void *wait_for(void *lock)
{
    ANSWERS(PL_OK, pl_lock_acquire(lock, 10000, &error));
    return NULL;
}

/* A pair, a hand-over between two connections, health checks, and an acquire that gives up. */
static void work(pl_client *client, pl_lock **held)
{
    pl_lock_options *options = NULL;
    pl_lock *first = NULL, *second = check_lock(client, "all is well");
    pthread_t thread;

    ANSWERS(PL_OK, pl_lock_options_new(&options, &error));
    ANSWERS(PL_OK, pl_lock_options_set_health_check_interval(options, 100, &error));
    ANSWERS(PL_OK, pl_lock_new(client, "all is well", options, &first, &error));
    ANSWERS(PL_OK, pl_lock_acquire(first, 5000, &error));
    ANSWERS(PL_OK, pl_lock_release(first, &error));
    ANSWERS(PL_OK, pl_lock_acquire(first, 5000, &error));
    ANSWERS(PL_LOCKED, pl_lock_try_acquire(second, &error));
    CHECK(pthread_create(&thread, NULL, wait_for, second) == 0);
    check_sleep(400);
    ANSWERS(PL_OK, pl_lock_verify(first, 5000, &error));
    ANSWERS(PL_OK, pl_lock_release(first, &error));
    CHECK(pthread_join(thread, NULL) == 0);
    pl_lock_options_free(options);
    pl_lock_free(first);
    *held = second;
}

static void lose(pl_lock *lock)
{
    char name[128], order[160], id[PL_HOLDER_ID_SIZE], holder[64];
    ANSWERS(PL_OK, pl_lock_holder_id(lock, id, sizeof id, &error));
    ANSWERS(PL_OK, pl_lock_client_name(lock, name, sizeof name, &error));
    snprintf(order, sizeof order, "kill %s", name);
    snprintf(holder, sizeof holder, " holder=%s ", id);
    check_ask(order);
    for (int i = 0; i < 2000 && pl_lock_is_held(lock); i++)
        check_sleep(1);
    check_sleep(50);
    CHECK(said_up_to(PL_LOG_ERROR) == 1 && said_up_to(PL_LOG_WARN) == 1);
    CHECK(said("the lock is lost: ") && said(" state=lost reason=Disconnected"));
    CHECK(said(holder) && said(" channel=\"all is well\" "));
}

int main(int argc, char **argv)
{
    pl_lock *held = NULL;
    CHECK(argc >= 2);
    pl_client *client = check_client(argv[1]);
    if (argc > 2) {
        work(client, &held);
    } else {
        listen_at(PL_LOG_WARN);
        work(client, &held);
        CHECK(said_up_to(PL_LOG_DEBUG) == 0);
        pl_lock_free(held);

        listen_at(PL_LOG_DEBUG);
        work(client, &held);
        CHECK(said_up_to(PL_LOG_WARN) == 0 && said_up_to(PL_LOG_INFO) > 5);
        CHECK(said("acquired channel=\"all is well\" holder=") && said(" state=held waited_ms=0\n"));
        CHECK(said("others come first channel=\"all is well\" holder=") && said(" ahead=0\n"));
        CHECK(said("a check has come back ") && said(" state=released\n"));
        CHECK(said(" state=failed status=Locked\n"));
        lose(held);
        ANSWERS(PL_OK, pl_set_log_handler(PL_LOG_OFF, (pl_log_handler){NULL, NULL, NULL}, &error));
        CHECK(atomic_load(&drops) == 2);
    }
    pl_lock_free(held);
    pl_client_free(client);
    return 0;
}
