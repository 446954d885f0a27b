/* Wrong arguments of every function: a clear error, and nothing else. Needs no server. */
#include "check.h"

static const char *const BAD_UTF8 = "caf\xe9";

static void options(void)
{
    pl_client_options *client = NULL;
    pl_lock_options *lock = NULL;

    ANSWERS(PL_INVALID, pl_client_options_new(NULL, &error));
    ANSWERS(PL_INVALID, pl_lock_options_new(NULL, &error));
    ANSWERS(PL_OK, pl_client_options_new(&client, &error));
    ANSWERS(PL_OK, pl_lock_options_new(&lock, &error));

    const int64_t absurd[] = {INT64_MIN, -3, -1, INT64_MAX, 31622400001};
    for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++) {
        int64_t ms = absurd[i];
        ANSWERS(PL_INVALID, pl_client_options_set_connect_timeout(client, ms, &error));
        ANSWERS(PL_INVALID, pl_lock_options_set_check_interval(lock, ms, &error));
        ANSWERS(PL_INVALID, pl_lock_options_set_unavailable_timeout(lock, ms, &error));
        ANSWERS(PL_INVALID, pl_lock_options_set_health_check_interval(lock, ms, &error));
        if (ms != PL_WAIT_FOREVER)
            ANSWERS(PL_INVALID, pl_lock_options_set_timeout(lock, ms, &error));
    }
    ANSWERS(PL_INVALID, pl_client_options_set_connect_timeout(client, 0, &error));
    ANSWERS(PL_INVALID, pl_client_options_set_pool_size(client, 1025, &error));
    ANSWERS(PL_INVALID, pl_lock_options_set_timeout(lock, PL_DEFAULT, &error));
    ANSWERS(PL_INVALID, pl_lock_options_set_check_interval(lock, 0, &error));
    ANSWERS(PL_INVALID, pl_lock_options_set_unavailable_timeout(lock, 0, &error));
    ANSWERS(PL_INVALID, pl_lock_options_set_health_check_interval(lock, 99, &error));
    ANSWERS(PL_INVALID, pl_lock_options_set_mode(lock, PL_MODE_NONE, &error));
    ANSWERS(PL_INVALID, pl_lock_options_set_mode(lock, 77, &error));
    ANSWERS(PL_INVALID, pl_lock_options_set_label(lock, NULL, &error));
    ANSWERS(PL_INVALID, pl_lock_options_set_label(lock, BAD_UTF8, &error));
    char label[258];
    memset(label, 'x', 257);
    label[257] = '\0';
    ANSWERS(PL_INVALID, pl_lock_options_set_label(lock, label, &error));
    label[256] = '\0';
    ANSWERS(PL_OK, pl_lock_options_set_label(lock, label, &error));
    ANSWERS(PL_OK, pl_lock_options_set_timeout(lock, PL_WAIT_FOREVER, &error));
    ANSWERS(PL_OK, pl_lock_options_set_timeout(lock, 0, &error));
    ANSWERS(PL_OK, pl_lock_options_set_fail_when_locked(lock, true, &error));
    ANSWERS(PL_OK, pl_lock_options_set_disclose(lock, false, &error));
    ANSWERS(PL_OK, pl_lock_options_set_fencing(lock, true, &error));

    ANSWERS(PL_INVALID, pl_client_options_set_pool_size(NULL, 1, &error));
    ANSWERS(PL_INVALID, pl_client_options_set_shared_connection(NULL, true, &error));
    ANSWERS(PL_INVALID, pl_client_options_set_tls_ca_file(NULL, "ca.pem", &error));
    ANSWERS(PL_INVALID, pl_client_options_set_tls_ca_file(client, NULL, &error));
    ANSWERS(PL_INVALID, pl_client_options_set_tls_client_certificate(client, "a.pem", NULL, &error));
    ANSWERS(PL_INVALID, pl_client_options_set_tls_server_name(client, NULL, &error));
    ANSWERS(PL_INVALID, pl_client_options_set_tls_insecure_no_verification(NULL, true, &error));
    ANSWERS(PL_OK, pl_client_options_set_tls_client_certificate(client, "a.pem", "a.key", &error));
    ANSWERS(PL_OK, pl_client_options_set_tls_server_name(client, "localhost", &error));
    ANSWERS(PL_OK, pl_client_options_set_tls_insecure_no_verification(client, true, &error));
    ANSWERS(PL_OK, pl_client_options_set_tls_ca_file(client, "ca.pem", &error));
    ANSWERS(PL_INVALID, pl_lock_options_set_disclose(NULL, true, &error));
    /* The wrong kind of handle. */
    ANSWERS(PL_INVALID, pl_lock_options_set_disclose((pl_lock_options *)client, true, &error));
    ANSWERS(PL_INVALID, pl_client_options_set_pool_size((pl_client_options *)lock, 1, &error));

    pl_client_options_free(client);
    pl_client_options_free(client);
    pl_client_options_free((pl_client_options *)lock);
    ANSWERS(PL_OK, pl_lock_options_set_disclose(lock, true, &error));
    pl_lock_options_free(lock);
    pl_lock_options_free(lock);
    pl_client_options_free(NULL);
    pl_lock_options_free(NULL);
    /* After they were freed. */
    ANSWERS(PL_INVALID, pl_client_options_set_pool_size(client, 1, &error));
    ANSWERS(PL_INVALID, pl_lock_options_set_mode(lock, PL_MODE_SHARED, &error));
    pl_client *made = NULL;
    ANSWERS(PL_INVALID, pl_client_new("redis://h", client, &made, &error));
    CHECK(made == NULL);
}

static void clients(void)
{
    pl_client *client = NULL;
    const char *const wrong[] = {"", "redis:", "nothing", "unix:", "redis://h:99999", BAD_UTF8};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ANSWERS(PL_INVALID, pl_client_new(wrong[i], NULL, &client, &error));
    ANSWERS(PL_UNSUPPORTED, pl_client_new("http://h", NULL, &client, &error));
    ANSWERS(PL_INVALID, pl_client_new(NULL, NULL, &client, &error));
    ANSWERS(PL_INVALID, pl_client_new("redis://h", NULL, NULL, &error));
    CHECK(client == NULL);

    pl_error *error = NULL;
    CHECK(pl_client_new("redis://u:hunter2@h/x", NULL, &client, &error) == PL_INVALID);
    CHECK(strstr(pl_error_message(error), "hunter2") == NULL);
    CHECK(!pl_error_retryable(error));
    pl_error_free(error);

    ANSWERS(PL_INVALID, pl_client_ping(NULL, 1, NULL, &error));
    client = check_client("unix:///nowhere.sock");
    ANSWERS(PL_INVALID, pl_client_ping(client, -1, NULL, &error));
    ANSWERS(PL_UNREACHABLE, pl_client_ping(client, 100, NULL, &error));

    pl_holders *holders = NULL;
    ANSWERS(PL_INVALID, pl_probe_holders(NULL, "x", 1, &holders, &error));
    ANSWERS(PL_INVALID, pl_probe_holders(client, NULL, 1, &holders, &error));
    ANSWERS(PL_INVALID, pl_probe_holders(client, "", 1, &holders, &error));
    ANSWERS(PL_INVALID, pl_probe_holders(client, "x", -1, &holders, &error));
    ANSWERS(PL_INVALID, pl_probe_holders(client, "x", 1, NULL, &error));
    ANSWERS(PL_UNREACHABLE, pl_probe_holders(client, "x", 1, &holders, &error));
    ANSWERS(PL_INVALID, pl_reap_silent(NULL, "x", 1, NULL, NULL, &error));
    ANSWERS(PL_INVALID, pl_reap_silent(client, BAD_UTF8, 1, NULL, NULL, &error));
    ANSWERS(PL_INVALID, pl_reap_silent(client, "x", INT64_MIN, NULL, NULL, &error));
    ANSWERS(PL_INVALID, pl_reap_silent(client, "x", 0, NULL, NULL, &error));
    CHECK(holders == NULL && pl_holders_count(holders) == 0 && pl_holders_at(holders, 0) == NULL);
    pl_holders_free(NULL);

    pl_stats *stats = NULL;
    ANSWERS(PL_INVALID, pl_client_stats(NULL, &stats, &error));
    ANSWERS(PL_INVALID, pl_client_stats(client, NULL, &error));
    CHECK(pl_stats_value(NULL, PL_STAT_ACQUIRES) == 0 && pl_stats_wait_buckets(NULL) == 0);
    CHECK(pl_stats_wait_bound_us(NULL, 0) == -1 && pl_stats_wait_bucket(NULL, 0) == 0);
    CHECK(pl_stats_wait_percentile_us(NULL, 50) == 0);
    ANSWERS(PL_OK, pl_client_stats(client, &stats, &error));
    CHECK(pl_stats_value(stats, 0) == 0 && pl_stats_value(stats, INT32_MAX) == 0);
    CHECK(pl_stat_name(0) == NULL && pl_stat_name(-1) == NULL && pl_stat_name(1) != NULL);
    pl_stats_free(stats);
    pl_stats_free(stats);
    pl_stats_free(NULL);
    CHECK(pl_stats_value(stats, PL_STAT_FAILED) == 0);

    pl_client_free(client);
    pl_client_free(client);
    pl_client_free(NULL);
    ANSWERS(PL_INVALID, pl_client_ping(client, 1, NULL, &error));
    ANSWERS(PL_INVALID, pl_client_stats(client, &stats, &error));
}

static void dropped(void *context)
{
    ++*(int *)context;
}

static void lost(void *context, const pl_loss *loss)
{
    (void)context, (void)loss;
}

static void locks(void)
{
    pl_client *client = check_client("unix:///nowhere.sock");
    pl_lock *lock = NULL;
    char name[1026], small[4], id[PL_HOLDER_ID_SIZE];
    uint64_t token;

    memset(name, 'x', 1025);
    name[1025] = '\0';
    ANSWERS(PL_INVALID, pl_lock_new(NULL, "x", NULL, &lock, &error));
    ANSWERS(PL_INVALID, pl_lock_new(client, NULL, NULL, &lock, &error));
    ANSWERS(PL_INVALID, pl_lock_new(client, "", NULL, &lock, &error));
    ANSWERS(PL_INVALID, pl_lock_new(client, name, NULL, &lock, &error));
    ANSWERS(PL_INVALID, pl_lock_new(client, BAD_UTF8, NULL, &lock, &error));
    ANSWERS(PL_INVALID, pl_lock_new(client, "x-lock-events", NULL, &lock, &error));
    ANSWERS(PL_INVALID, pl_lock_new(client, "x", NULL, NULL, &error));
    ANSWERS(PL_INVALID, pl_lock_new((pl_client *)&check_poison, "x", NULL, &lock, &error));
    CHECK(lock == NULL);

    lock = check_lock(client, "x");
    CHECK(strcmp(pl_lock_name(lock), "x") == 0);
    CHECK(!pl_lock_is_held(lock));
    ANSWERS(PL_INVALID, pl_lock_acquire(lock, -3, &error));
    ANSWERS(PL_INVALID, pl_lock_acquire(lock, INT64_MAX, &error));
    ANSWERS(PL_INVALID, pl_lock_acquire_mode(lock, 0, 1, &error));
    ANSWERS(PL_INVALID, pl_lock_acquire(NULL, 1, &error));
    ANSWERS(PL_INVALID, pl_lock_acquire_shared(NULL, 1, &error));
    ANSWERS(PL_INVALID, pl_lock_try_acquire(NULL, &error));
    ANSWERS(PL_INVALID, pl_lock_try_acquire_shared(NULL, &error));
    ANSWERS(PL_UNREACHABLE, pl_lock_try_acquire(lock, &error));
    ANSWERS(PL_UNREACHABLE, pl_lock_acquire(lock, 50, &error));
    ANSWERS(PL_NOT_HELD, pl_lock_release(lock, &error));
    ANSWERS(PL_NOT_HELD, pl_lock_release_wait(lock, 1, &error));
    ANSWERS(PL_NOT_HELD, pl_lock_holder_id(lock, id, sizeof id, &error));
    ANSWERS(PL_NOT_HELD, pl_lock_client_name(lock, small, sizeof small, &error));
    ANSWERS(PL_NOT_HELD, pl_lock_fencing_token(lock, &token, &error));
    ANSWERS(PL_INVALID, pl_lock_fencing_token(lock, NULL, &error));
    ANSWERS(PL_INVALID, pl_lock_holder_id(lock, NULL, 99, &error));
    ANSWERS(PL_INVALID, pl_lock_release(NULL, &error));
    pl_lock_cancel(lock);
    pl_lock_cancel(NULL);
    CHECK(!pl_lock_is_held(NULL) && pl_lock_name(NULL)[0] == '\0');

    /* `drop` is called once, also where the rest fails. */
    int drops = 0;
    pl_lost_callback callback = {&drops, lost, dropped};
    ANSWERS(PL_INVALID, pl_lock_on_lost(NULL, callback, &error));
    CHECK(drops == 1);
    ANSWERS(PL_OK, pl_lock_on_lost(lock, callback, &error));
    CHECK(drops == 1);
    ANSWERS(PL_OK, pl_lock_on_lost(lock, callback, &error));
    CHECK(drops == 2);

    pl_client_free(client);
    pl_lock_free(lock);
    CHECK(drops == 3);
    pl_lock_free(lock);
    pl_lock_free(NULL);
    ANSWERS(PL_INVALID, pl_lock_acquire(lock, 1, &error));
    ANSWERS(PL_INVALID, pl_lock_release(lock, &error));
    ANSWERS(PL_INVALID, pl_lock_on_lost(lock, callback, &error));
    CHECK(drops == 4);
    CHECK(!pl_lock_is_held(lock) && pl_lock_name(lock)[0] == '\0');
    pl_lock_cancel(lock);
}

static void errors(void)
{
    pl_error *error = NULL;
    CHECK(pl_error_status(NULL) == PL_OK && pl_error_message(NULL)[0] == '\0');
    CHECK(!pl_error_retryable(NULL));
    pl_error_free(NULL);
    CHECK(pl_lock_release(NULL, &error) == PL_INVALID);
    pl_error_free(error);
    pl_error_free(error);
    CHECK(pl_error_status(error) == PL_INVALID && pl_error_message(error)[0] == '\0');
    /* Nobody has to take the error. */
    CHECK(pl_lock_release(NULL, NULL) == PL_INVALID);
    CHECK(strcmp(pl_status_name(PL_TIMEOUT), "PL_TIMEOUT") == 0);
    CHECK(strcmp(pl_status_name(-5), "PL_UNKNOWN") == 0);
    CHECK(strcmp(pl_version(), PORTALOCK_VERSION_STRING) == 0);
    ANSWERS(PL_INVALID, pl_set_log_handler(9, (pl_log_handler){NULL, NULL, NULL}, &error));
}

/* Slots of freed handles are used again some day: by then nothing may be left of the old ones. */
static void many(void)
{
    pl_client *client = check_client("unix:///nowhere.sock");
    for (int i = 0; i < 5000; i++) {
        pl_lock *lock = check_lock(client, "x");
        CHECK(strcmp(pl_lock_name(lock), "x") == 0);
        pl_lock_free(lock);
    }
    pl_client_free(client);
}

int main(void)
{
    options();
    clients();
    locks();
    errors();
    many();
    return 0;
}
