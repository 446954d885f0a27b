// The little that the C++ tests need. A program ends with the first thing that is not as it should be.
#ifndef CHECK_HPP
#define CHECK_HPP

#include <portalock.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

// A statement that has to throw this errc; `problem` is the exception.
#define THROWS(wanted, statement)                                                                  \
    do {                                                                                           \
        bool threw = false;                                                                        \
        try {                                                                                      \
            statement;                                                                             \
        } catch (const portalock::error &problem) {                                                \
            threw = true;                                                                          \
            if (problem.code() != portalock::errc::wanted)                                         \
                std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, problem.what());           \
            CHECK(problem.code() == portalock::errc::wanted);                                      \
        }                                                                                          \
        CHECK(threw || !"it throws nothing: " #statement);                                         \
    } while (0)

using namespace std::chrono_literals;
using namespace std::string_literals;

inline std::chrono::steady_clock::duration time_of(const std::function<void()> &what)
{
    const auto begun = std::chrono::steady_clock::now();
    what();
    return std::chrono::steady_clock::now() - begun;
}

#define AWAIT(condition)                                                                           \
    do {                                                                                           \
        for (int i = 0; i < 5000 && !(condition); i++)                                             \
            std::this_thread::sleep_for(1ms);                                                      \
        CHECK(condition);                                                                          \
    } while (0)

// Asks the driver of the tests, on the other side of the pipes, to do something.
inline void ask_driver(const std::string &what)
{
    char done[16];
    std::printf("%s\n", what.c_str());
    std::fflush(stdout);
    CHECK(std::fgets(done, sizeof done, stdin) != nullptr);
}

// Has the server end a lock's connection.
inline void lose(portalock::lock &one) { ask_driver("kill " + one.client_name()); }

#endif
