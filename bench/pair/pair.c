/* Pairs through the C interface: pair C pair URL NAME COUNT HOLD_US, as bench/src/work.rs does them. */
#include <inttypes.h>
#include <portalock.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void must(pl_status status, pl_error *error)
{
    if (status == PL_OK)
        return;
    fprintf(stderr, "%s\n", pl_error_message(error));
    exit(1);
}

int main(int argc, char **argv)
{
    pl_client *client = NULL;
    pl_lock *lock = NULL;
    pl_error *error = NULL;
    if (argc < 6)
        return 64;
    int count = atoi(argv[5]);
    int64_t(*spans)[2] = malloc(sizeof(*spans) * (size_t)count);
    must(pl_client_new(argv[3], NULL, &client, &error), error);
    must(pl_lock_new(client, argv[4], NULL, &lock, &error), error);
    for (int i = -20; i < count; i++) {
        int64_t begin = now();
        must(pl_lock_acquire(lock, PL_WAIT_FOREVER, &error), error);
        int64_t acquired = now();
        must(pl_lock_release(lock, &error), error);
        if (i < 0)
            continue;
        spans[i][0] = acquired - begin;
        spans[i][1] = now() - begin;
    }
    for (int i = 0; i < count; i++)
        printf("%s[%" PRId64 ",%" PRId64 "]", i ? "," : "[", spans[i][0], spans[i][1]);
    puts("]");
    pl_lock_free(lock);
    pl_client_free(client);
    free(spans);
    return 0;
}
