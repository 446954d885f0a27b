// What ends a program: argv[2] says which. argv[1] is the server's URL.
#include "check.hpp"

#include <mutex>
#include <sys/socket.h>
#include <sys/un.h>

namespace pl = portalock;

#ifdef PORTALOCK_HAS_EXCEPTIONS
// A member of the channel that answers nobody.
static void subscribe_and_stay_silent(const std::string &url)
{
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string path = url.substr("unix://"s.size());
    CHECK(path.size() < sizeof address.sun_path);
    path.copy(address.sun_path, path.size());
    const int silent = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(connect(silent, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0);
    const std::string words = "CLIENT SETNAME fatal-lock-00000000000000000000000000000001\r\n"
                              "SUBSCRIBE fatal\r\n";
    char answer = 0;
    CHECK(write(silent, words.data(), words.size()) == ssize_t(words.size()));
    CHECK(read(silent, &answer, 1) == 1);
}
#endif

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
    if (what == "acquired") {
        one.acquire_start(pl::mode::exclusive, 5s,
            [](std::error_code, std::string_view) { throw std::string("nor this"); });
        std::this_thread::sleep_for(10s);
    }
    if (what == "log") {
        pl::set_log_handler(pl::log_level::debug,
            [](pl::log_level, std::string_view) { throw std::string("nor that"); });
        // Whoever has a dead member's connection ended says so.
        subscribe_and_stay_silent(argv[1]);
        one.lock();
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
