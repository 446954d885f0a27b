/*
 * Many processes read a cache together; the one that finds it stale fills it, alone.
 *
 *   cache_refill URL NAME FILE
 *
 * The cache is a file with one line, and stale if it is not there.
 */
#include <portalock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(pl_status status, pl_error *error)
{
    if (status == PL_OK)
        return;
    fprintf(stderr, "cache_refill %d: %s\n", (int)getpid(), pl_error_message(error));
    exit(1);
}

static bool cached(const char *path, char *value, int size)
{
    FILE *file = fopen(path, "r");
    bool found = file != NULL && fgets(value, size, file) != NULL;
    if (file != NULL)
        fclose(file);
    if (found)
        value[strcspn(value, "\n")] = '\0';
    return found;
}

/* A file that another could see half written would be no cache. */
static void refill(const char *path)
{
    char fresh[4096];
    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *file = fopen(fresh, "w");
    if (file == NULL || fprintf(file, "%d\n", (int)getpid()) < 0 || fclose(file) != 0 ||
        rename(fresh, path) != 0) {
        perror(path);
        exit(1);
    }
    printf("%d refills\n", (int)getpid());
}

static bool reads(pl_lock *lock, const char *path)
{
    char value[256];
    pl_error *error;
    pl_status status = pl_lock_acquire_shared(lock, PL_WAIT_FOREVER, &error);
    check(status, error);
    bool found = cached(path, value, sizeof value);
    if (found)
        printf("%d reads %s\n", (int)getpid(), value);
    pl_lock_release(lock, NULL);
    return found;
}

/* Whether it was this process that filled it: another may have come first while it waited. */
static bool refills(pl_lock *lock, const char *path)
{
    char value[256];
    pl_error *error;
    pl_status status = pl_lock_acquire(lock, PL_WAIT_FOREVER, &error);
    check(status, error);
    bool stale = !cached(path, value, sizeof value);
    if (stale)
        refill(path);
    pl_lock_release(lock, NULL);
    return stale;
}

int main(int argc, char **argv)
{
    pl_client *client;
    pl_lock *lock;
    pl_error *error;

    if (argc != 4) {
        fprintf(stderr, "usage: cache_refill URL NAME FILE\n");
        return 2;
    }
    pl_status status = pl_client_new(argv[1], NULL, &client, &error);
    check(status, error);
    status = pl_lock_new(client, argv[2], NULL, &lock, &error);
    check(status, error);
    while (!reads(lock, argv[3]) && !refills(lock, argv[3])) {
    }
    pl_lock_free(lock);
    pl_client_free(client);
    return 0;
}
