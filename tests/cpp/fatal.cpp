// What ends a program: argv[2] says which. argv[1] is the server's URL.
#include "check.hpp"

#include <mutex>

namespace pl = portalock;

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    const std::string what = argv[2];
    const pl::client client(argv[1]);
    pl::lock one(client, "fatal");
#ifdef PORTALOCK_HAS_EXCEPTIONS
    if (what == "callback") {
        one.on_lost([](const pl::loss &) { throw std::string("nobody catches this"); });
        one.lock();
        lose(one);
        std::this_thread::sleep_for(10s);
    }
#else
    if (what == "error") {
        one.lock();
        one.lock();
    }
#endif
    return 0;
}
