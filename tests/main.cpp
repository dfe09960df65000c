// main() of every test.
#include <boost/test/unit_test.hpp>

int main(int count, char* arguments[]) {
  return boost::unit_test::unit_test_main([] { return true; }, count, arguments);
}
