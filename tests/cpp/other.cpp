// A second unit of the program of alone.cpp: both have the whole header, and share one category.
#include <portalock.hpp>

int in_the_other_unit(const portalock::client &client, std::error_code code);

int in_the_other_unit(const portalock::client &client, std::error_code code)
{
    portalock::lock lock(client, "other");
    return lock && code == portalock::errc::lost && code.category() == portalock::category() ? 0 : 1;
}
