/* Loads the library by hand, uses it, and unloads it. argv[1] is the URL, argv[2] the library. */
#include "check.h"
#include <dlfcn.h>

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    for (int round = 0; round < 3; round++) {
        void *library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
        CHECK(library != NULL);
        pl_status (*new_client)(const char *, const pl_client_options *, pl_client **, pl_error **);
        pl_status (*new_lock)(const pl_client *, const char *, const pl_lock_options *, pl_lock **,
                              pl_error **);
        pl_status (*acquire)(pl_lock *, int64_t, pl_error **);
        void (*free_lock)(pl_lock *);
        void (*free_client)(pl_client *);
        *(void **)&new_client = dlsym(library, "pl_client_new");
        *(void **)&new_lock = dlsym(library, "pl_lock_new");
        *(void **)&acquire = dlsym(library, "pl_lock_acquire");
        *(void **)&free_lock = dlsym(library, "pl_lock_free");
        *(void **)&free_client = dlsym(library, "pl_client_free");
        CHECK(new_client && new_lock && acquire && free_lock && free_client);

        pl_client *client = NULL;
        pl_lock *lock = NULL;
        CHECK(new_client(argv[1], NULL, &client, NULL) == PL_OK);
        CHECK(new_lock(client, "unloaded", NULL, &lock, NULL) == PL_OK);
        CHECK(acquire(lock, 1000, NULL) == PL_OK);
        free_lock(lock);
        free_client(client);
        CHECK(dlclose(library) == 0);
        check_sleep(20);
    }
    return 0;
}
