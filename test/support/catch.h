// Catch2 2.13 (Debian 12) and 3.x name their header differently; tests include this one.
#pragma once

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
