/* Loads the library that argv[1] names, and prints how many microseconds that took. */
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

static long long now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000LL + time.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
    long long begun = now_us();
    if (argc != 2 || dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) == NULL) {
        fprintf(stderr, "%s\n", argc == 2 ? dlerror() : "usage: load LIBRARY");
        return 1;
    }
    printf("%lld\n", now_us() - begun);
    return 0;
}
