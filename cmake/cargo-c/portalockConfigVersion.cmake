# The version is that of the header. Below 1.0, a minor version may break what was built for another.
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/../../../include/portalock.h" _portalock_line
     REGEX "PORTALOCK_VERSION_STRING" LIMIT_COUNT 1)
string(REGEX MATCH "[0-9]+\\.[0-9]+" _portalock_minor "${_portalock_line}")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" PACKAGE_VERSION "${_portalock_line}")

set(PACKAGE_VERSION_COMPATIBLE FALSE)
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  string(REGEX MATCH "^[0-9]+(\\.[0-9]+)?" _portalock_wanted "${PACKAGE_FIND_VERSION}")
  if(_portalock_minor VERSION_EQUAL _portalock_wanted)
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
  endif()
endif()
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
unset(_portalock_line)
unset(_portalock_minor)
unset(_portalock_wanted)
