/*
 * Goes through critical sections; see main.rs.
 *
 *   worker URL NAME FOLDER LABEL SECTIONS INSIDE_MS PAUSE_MS
 */
#include <fcntl.h>
#include <inttypes.h>
#include <portalock.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int journal, counter;
static const char *label;

static void must(int done, const char *what)
{
    if (!done) {
        fprintf(stderr, "%s: cannot %s\n", label, what);
        exit(1);
    }
}

static void must_be_ok(pl_status status, const char *what)
{
    must(status == PL_OK, what);
}

static void sleep_ms(long ms)
{
    struct timespec span = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&span, NULL);
}

/* One write to a file opened for appending is one line, however many processes write. */
static void note(const char *event, uint64_t token)
{
    char line[128];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int length = snprintf(line, sizeof line, "%s %s %" PRIu64 " %lld\n", event, label, token,
        now.tv_sec * 1000000000LL + now.tv_nsec);
    must(write(journal, line, (size_t)length) == length, "write the journal");
}

/* Without a lock of its own: it loses some if two do it at once. */
static void count(long inside_ms)
{
    char digits[24] = "";
    must(pread(counter, digits, 16, 0) == 16, "read the counter");
    sleep_ms(inside_ms);
    snprintf(digits, sizeof digits, "%016lld", atoll(digits) + 1);
    must(pwrite(counter, digits, 16, 0) == 16, "write the counter");
}

static void lost(void *context, const pl_loss *loss)
{
    (void)context;
    fprintf(stderr, "%s: %s\n", label, loss->message);
    note("lost", 0);
}

static void section(pl_lock *lock, long inside_ms)
{
    uint64_t token = 0;
    note("want", 0);
    must_be_ok(pl_lock_acquire(lock, PL_WAIT_FOREVER, NULL), "acquire");
    must_be_ok(pl_lock_fencing_token(lock, &token, NULL), "see a token");
    must(mkdir("inside", 0700) == 0, "be alone");
    note("enter", token);
    count(inside_ms);
    note("leave", token);
    must(rmdir("inside") == 0, "stay alone");
    must_be_ok(pl_lock_release(lock, NULL), "release");
}

int main(int argc, char **argv)
{
    pl_client *client = NULL;
    pl_lock *lock = NULL;
    pl_lock_options *options = NULL;
    pl_lost_callback callback = {NULL, lost, NULL};

    if (argc != 8)
        return 2;
    label = argv[4];
    must(chdir(argv[3]) == 0, "enter the folder");
    journal = open("journal", O_WRONLY | O_APPEND | O_CLOEXEC);
    counter = open("counter", O_RDWR | O_CLOEXEC);
    must_be_ok(pl_client_new(argv[1], NULL, &client, NULL), "make a client");
    must_be_ok(pl_lock_options_new(&options, NULL), "make options");
    must_be_ok(pl_lock_options_set_fencing(options, true, NULL), "have fencing");
    must_be_ok(pl_lock_new(client, argv[2], options, &lock, NULL), "make a lock");
    must_be_ok(pl_lock_on_lost(lock, callback, NULL), "have a callback");
    puts("worker> ready");
    fflush(stdout);
    must(getchar() != EOF, "begin");
    for (long left = atol(argv[5]); left > 0; left--) {
        section(lock, atol(argv[6]));
        sleep_ms(atol(argv[7]));
    }
    pl_lock_options_free(options);
    pl_lock_free(lock);
    pl_client_free(client);
    return 0;
}
