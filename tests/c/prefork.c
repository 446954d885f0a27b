/*
 * A server that forks its workers beforehand, and forks another one for each that dies. The master keeps a
 * lock all the time; the workers count up in a file, which goes wrong unless they take turns.
 * argv[1] is the server's URL, argv[2] the file.
 */
#include "check.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 4, SECTIONS = 40 };

static pl_client *client;

static long read_count(const char *path)
{
    long count = 0;
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        CHECK(fscanf(file, "%ld", &count) == 1);
        fclose(file);
    }
    return count;
}

/* Reads, thinks, writes: only one may. */
static void count_up(const char *path)
{
    long count = read_count(path);
    FILE *file;
    char next[256];
    usleep(500);
    snprintf(next, sizeof next, "%s.next", path);
    CHECK((file = fopen(next, "w")) != NULL);
    fprintf(file, "%ld\n", count + 1);
    CHECK(fclose(file) == 0 && rename(next, path) == 0);
}

static void work(const char *url, const char *path, int victim)
{
    pl_client *own = check_client(url);
    pl_lock *lock = check_lock(own, "counter");
    for (int i = 0; i < SECTIONS; i++) {
        ANSWERS(PL_OK, pl_lock_acquire(lock, 20000, &error));
        if (victim)
            kill(getpid(), SIGKILL);
        count_up(path);
        ANSWERS(PL_OK, pl_lock_release(lock, &error));
    }
    /* What the master made stays the master's. */
    pl_client_free(client);
    pl_lock_free(lock);
    pl_client_free(own);
    exit(0);
}

static void start(const char *url, const char *path, int victim)
{
    pid_t worker = fork();
    CHECK(worker >= 0);
    if (worker == 0)
        work(url, path, victim);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    client = check_client(argv[1]);
    pl_lock *master = check_lock(client, "master");
    ANSWERS(PL_OK, pl_lock_acquire(master, 1000, &error));
    for (int i = 0; i < WORKERS; i++)
        start(argv[1], argv[2], i == 0);
    for (int left = WORKERS; left > 0;) {
        int status;
        CHECK(wait(&status) > 0);
        if (WIFSIGNALED(status)) {
            start(argv[1], argv[2], 0);
            continue;
        }
        CHECK(WEXITSTATUS(status) == 0);
        left--;
    }
    ANSWERS(PL_OK, pl_lock_verify(master, 5000, &error));
    CHECK(read_count(argv[2]) == WORKERS * SECTIONS);
    pl_lock_free(master);
    pl_client_free(client);
    return 0;
}
