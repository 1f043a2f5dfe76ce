# What people type.  Everything here is a line or two over CMake's presets and tools/.
PREFIX ?= /usr/local

.PHONY: all build release run test test-full bench asan tsan fuzz soak format clean install FORCE

all: build

build:
	@cmake --preset dev >/dev/null && cmake --build --preset dev

release:
	@tools/setup.sh --run
	@cmake --preset release >/dev/null && cmake --build --preset release

run:
	@tools/setup.sh --run
	@cmake --preset release >/dev/null && cmake --build --preset release --target zico zico_hook
	@tools/demo.sh build/release

test:
	@tools/setup.sh
	@tools/run_tests.sh

test-full:
	@tools/setup.sh
	@tools/run_tests.sh --full

bench: release
	@tools/bench.sh build/release

bench-%: release FORCE
	@tools/bench.sh build/release $*

asan tsan:
	@cmake --preset $@ >/dev/null && cmake --build --preset $@ && ctest --preset $@ -LE no-$@

fuzz:
	@tools/fuzz.sh

soak:
	@cmake --preset soak >/dev/null && cmake --build --preset soak
	@ctest --preset soak -L 'fault|sim|e2e'

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

install: release
	@cmake --install build/release --prefix $(PREFIX)

clean:
	@rm -rf build out
