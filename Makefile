# dlb: `make` builds lb/lb, backend/backend and loadgen/loadgen. Objects go to $(BUILD).
# Sanitizer builds use their own object folders: `make asan`, `make tsan`.

BUILD   ?= build/release
BIN     ?= .
CXX     ?= g++
CC      ?= gcc
OPT     ?= -O2 -g -fno-omit-frame-pointer
SAN     ?=
WARN     = -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror
VERSION := $(shell sed -n 's/^\#\# \[\{0,1\}\([0-9][0-9.]*\).*/\1/p' CHANGELOG.md 2>/dev/null | head -n 1)

# llhttp: newer systems have a library with pkg-config; Debian 12 ships its C source in node-llhttp.
LLHTTP_SRC := /usr/share/llhttp
ifeq ($(shell pkg-config --exists libllhttp && echo yes),yes)
LLHTTP_CFLAGS := $(shell pkg-config --cflags libllhttp)
LLHTTP_LIBS   := $(shell pkg-config --libs libllhttp)
LLHTTP_OBJ    :=
else
LLHTTP_CFLAGS := -isystem /usr/share/include/llhttp
LLHTTP_LIBS   :=
LLHTTP_OBJ    := $(addprefix $(BUILD)/llhttp/,api.o http.o llhttp.o)
endif

CPPFLAGS += -I. $(LLHTTP_CFLAGS) -isystem /usr/include/postgresql -DDLB_VERSION='"$(or $(VERSION),dev)"'
CXXFLAGS += -std=c++20 -pipe $(OPT) $(SAN) $(WARN) -pthread
CFLAGS   += $(OPT) $(SAN)
LDFLAGS  += $(SAN) -pthread

LIBS_common  = $(LLHTTP_LIBS) -lfmt
LIBS_lb      = -lsimdjson -lssl -lcrypto
LIBS_backend = -lsimdjson -lpq -lsqlite3 -lssl -lcrypto -lz
LIBS_loadgen = -lsimdjson -lssl -lcrypto -lz

srcs = $(filter-out %/main.cc,$(wildcard $(1)/*.cc $(1)/*/*.cc))
objs = $(patsubst %.cc,$(BUILD)/%.o,$(1))
unit_srcs   = $(wildcard test/unit/$(1)/*.cc test/unit/$(1)/*/*.cc)
UNIT_PARTS  = common lb backend loadgen

# UNITY=1 compiles in groups of files (test/support/unity.py): in half the time, for builds that are made once. What is
# built again and again is compiled file by file.
ifneq ($(UNITY),)
GROUPS      := $(shell python3 test/support/unity.py $(BUILD)/unity $(foreach p,$(UNIT_PARTS),$(call srcs,$(p)) $(call unit_srcs,$(p))))
part_objs    = $(patsubst %.cc,%.o,$(filter $(BUILD)/unity/$(1)_%,$(GROUPS)))
unit_objs    = $(call part_objs,unit_$(1))
else
part_objs    = $(call objs,$(call srcs,$(1)))
unit_objs    = $(call objs,$(call unit_srcs,$(1)))
endif

COMMON_OBJ   = $(call part_objs,common) $(LLHTTP_OBJ)
LB_OBJ       = $(call part_objs,lb)
BACKEND_OBJ  = $(call part_objs,backend)
LOADGEN_OBJ  = $(call part_objs,loadgen)

.PHONY: soak clients docs all lb backend loadgen unit unit-build test asan tsan clean install check-includes
all: lb backend loadgen fixture_server
lb: $(BIN)/lb/lb
backend: $(BIN)/backend/backend
loadgen: $(BIN)/loadgen/loadgen

# Linked beside and moved into place, so that a running program is never written into.
define link
	@mkdir -p $(dir $@)
	$(CXX) $(LDFLAGS) -o $@.new $(filter %.o %.a,$^) $(1) && mv $@.new $@
endef

$(BUILD)/libcommon.a: $(COMMON_OBJ)
	@rm -f $@ && ar rcs $@ $^
$(BIN)/lb/lb: $(BUILD)/lb/main.o $(LB_OBJ) $(BUILD)/libcommon.a
	$(call link,$(LIBS_lb) $(LIBS_common))
$(BIN)/backend/backend: $(BUILD)/backend/main.o $(BACKEND_OBJ) $(BUILD)/libcommon.a
	$(call link,$(LIBS_backend) $(LIBS_common))
$(BIN)/loadgen/loadgen: $(BUILD)/loadgen/main.o $(LOADGEN_OBJ) $(BUILD)/libcommon.a
	$(call link,$(LIBS_loadgen) $(LIBS_common))

$(BUILD)/llhttp/%.o: $(LLHTTP_SRC)/%.c
	@mkdir -p $(dir $@)
	$(CC) $(CFLAGS) -I/usr/share/include/llhttp -c -o $@ $<

# Tests are compiled for fast builds, not for fast runs: under sanitizers the tests themselves without UBSan and debug data
# (what they test has both), and Catch2's main comes from its package where there is one, else without sanitizers.
UNIT_FLAGS = -O0 $(if $(SAN),-g0 -fno-sanitize=undefined,-g1)
COMPILE    = $(CXX) $(CPPFLAGS) $(CXXFLAGS) $(1) -MMD -MP -c -o $@ $<
$(BUILD)/test/support/catch_main.o: test/support/catch_main.cc
	@mkdir -p $(dir $@)
	$(CXX) -std=c++20 -O0 -I. -MMD -MP -c -o $@ $<
$(BUILD)/test/unit/%.o: test/unit/%.cc
	@mkdir -p $(dir $@)
	$(call COMPILE,$(UNIT_FLAGS))
$(BUILD)/%.o: %.cc
	@mkdir -p $(dir $@)
	$(call COMPILE)

# The pages stand in home_page.cc, dashboard.cc and report_html.cc by .incbin, which -MMD does not see.
$(filter %/home_page.o $(BUILD)/unity/%,$(BACKEND_OBJ)): $(wildcard backend/page/*)
$(filter %/dashboard.o $(BUILD)/unity/%,$(LB_OBJ)): $(wildcard lb/dashboard/* common/page/*)
$(filter %/report_html.o $(BUILD)/unity/%,$(LOADGEN_OBJ)): $(wildcard loadgen/page/* common/page/*)

# A group whose files do not get along with each other is compiled one by one and put together.
define compile_group
	$(call COMPILE,$(1)) 2>$@.log || { echo "$<: file by file"; rm -f $@.*.[do]; \
	  for file in $$(sed -n '1s|^// of ||p' $<); do part=$@.$$(echo $$file | tr / _); \
	    $(CXX) $(CPPFLAGS) $(CXXFLAGS) $(1) -MMD -MP -MT $@ -MF $$part.d -c -o $$part.o $$file || exit 1; echo "$$file:" >>$$part.d; done; \
	  ld -r -o $@ $@.*.o; }
endef
$(BUILD)/unity/unit_%.o: $(BUILD)/unity/unit_%.cc
	$(call compile_group,$(UNIT_FLAGS))
$(BUILD)/unity/%.o: $(BUILD)/unity/%.cc
	$(call compile_group)

# Measuring tools of bench/.
$(BUILD)/bench/limit_relay: $(BUILD)/bench/limit_relay.o
	$(call link,)
$(BUILD)/bench/insert_limit: $(BUILD)/bench/insert_limit.o
	$(call link,-lpq)
$(BUILD)/bench/chat_fanout: $(BUILD)/bench/chat_fanout.o $(LOADGEN_OBJ) $(BUILD)/libcommon.a
	$(call link,$(LIBS_loadgen) $(LIBS_common))

# Also of bench/: a backend that behaves as it is told, for tests and benches.
FIXTURE_OBJ = $(addprefix $(BUILD)/bench/,fixture_server.o fixture_tcp.o fine_wake.o service_time.o)
.PHONY: fixture_server
fixture_server: $(BIN)/bench/fixture_server
$(BIN)/bench/fixture_server: $(FIXTURE_OBJ) $(BUILD)/libcommon.a
	$(call link,-lssl -lcrypto $(LIBS_common))

# The simulator, with the balancer's own objects.
SIMULATE_OBJ = $(call objs,$(filter-out %/main.cc,$(wildcard bench/simulate/*.cc)) bench/service_time.cc)
.PHONY: simulate
simulate: $(BIN)/bench/simulate/simulate
$(BIN)/bench/simulate/simulate: $(BUILD)/bench/simulate/main.o $(SIMULATE_OBJ) $(LB_OBJ) $(BUILD)/libcommon.a
	$(call link,$(LIBS_lb) $(LIBS_common))

.PHONY: pick_cost
pick_cost: $(BIN)/bench/pick_cost
$(BIN)/bench/pick_cost: $(BUILD)/bench/pick_cost.o $(LB_OBJ) $(BUILD)/libcommon.a
	$(call link,$(LIBS_lb) $(LIBS_common))

# What needs no quiet machine but for its times: policies in simulation, and what a pick costs.
.PHONY: bench
bench: simulate pick_cost
	bench/simulate/simulate --html build/simulate.html
	bench/pick_cost

# One unit-test program per tree part: test/unit/PART/*.cc. `make unit` builds and runs all, `make unit-lb` one.
CATCH_MAIN := $(or $(firstword $(wildcard /usr/lib/libCatch2WithMain.a)),$(BUILD)/test/support/catch_main.o)

define unit_rules
$(BUILD)/unit/$(1): $$(call unit_objs,$(1)) $$(CATCH_MAIN) $(2) $(BUILD)/libcommon.a
	$$(call link,$(3) $$(LIBS_common))
.PHONY: unit-$(1)
unit-$(1): $(BUILD)/unit/$(1)
	$(BUILD)/unit/$(1)
endef
$(eval $(call unit_rules,common,,-lssl -lcrypto))
$(eval $(call unit_rules,lb,$$(SIMULATE_OBJ) $$(LB_OBJ),$$(LIBS_lb)))
$(eval $(call unit_rules,backend,$$(BACKEND_OBJ),$$(LIBS_backend)))
$(eval $(call unit_rules,loadgen,$$(LOADGEN_OBJ),$$(LIBS_loadgen)))

unit-build: $(addprefix $(BUILD)/unit/,$(foreach p,$(UNIT_PARTS),$(if $(call unit_srcs,$(p)),$(p))))
unit: $(addprefix unit-,$(foreach p,$(UNIT_PARTS),$(if $(call unit_srcs,$(p)),$(p))))

# Sanitizers: the same rules with other flags, objects and binaries under build/asan and build/tsan.
# ASan without optimisation, since it is compiled more than it runs; warnings that need the optimiser come with the release
# build. The checks of UBSan at each pointer that is followed cost a third of the compile time, and ASan sees what they would
# (null, freed, too short), alignment and types aside: the fuzzers have them all. TSan knows no fences (-Wtsan): read-modify-writes order what they would.
DEBUG ?= -g1
ASAN = BUILD=build/asan BIN=build/asan/bin OPT="-O0 $(DEBUG) -fno-omit-frame-pointer" \
  SAN="-fsanitize=address,undefined -fno-sanitize=null,alignment,object-size,vptr -fno-sanitize-recover=all"
TSAN = BUILD=build/tsan BIN=build/tsan/bin OPT="-O1 $(DEBUG) -fno-omit-frame-pointer" SAN="-fsanitize=thread"
.PHONY: asan-unit asan-test tsan-lb
asan:
	$(MAKE) $(ASAN) all unit-build
asan-test:
	$(MAKE) $(ASAN) lb unit-build
asan-unit:
	$(MAKE) $(ASAN) unit-build
tsan:
	$(MAKE) $(TSAN) all
tsan-lb:
	$(MAKE) $(TSAN) lb

# Fuzzers (clang): `make fuzz` builds all and runs each for FUZZ_SECONDS; new inputs go to build/fuzz/corpus, and what
# reached new code is copied from there into test/fuzz/corpus by hand.
FUZZERS      = request_head response_head chunked proxy_protocol ws_frame
FUZZ_SECONDS ?= 60
FUZZ_SAN     = -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
FUZZ_SRC     = $(addprefix common/,http_parser.cc http_head.cc http_fields.cc http_syntax.cc http_message.cc chunked.cc result.cc proxy_protocol.cc address.cc ws_frame.cc utf8_check.cc)
.PHONY: fuzz fuzz-build
fuzz-build: $(addprefix build/fuzz/,$(FUZZERS))
fuzz: fuzz-build
	@for name in $(FUZZERS); do mkdir -p build/fuzz/corpus/$$name && \
	  build/fuzz/$$name -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -print_final_stats=1 -verbosity=0 \
	    -artifact_prefix=build/fuzz/ build/fuzz/corpus/$$name test/fuzz/corpus/$$name || exit 1; done
build/fuzz/%: test/fuzz/%.cc $(wildcard test/fuzz/*.h) $(FUZZ_SRC) $(wildcard common/*.h)
	@mkdir -p $(dir $@)
	for part in $(if $(LLHTTP_OBJ),api http llhttp); do clang -O1 -g $(FUZZ_SAN) -I/usr/share/include/llhttp \
	  -c $(LLHTTP_SRC)/$$part.c -o build/fuzz/ll_$$part.o || exit 1; done
	clang++ $(CPPFLAGS) -std=c++20 -O1 -g $(FUZZ_SAN) -fsanitize=fuzzer -o $@ $< $(FUZZ_SRC) \
	  $(if $(LLHTTP_OBJ),$(addprefix build/fuzz/,ll_api.o ll_http.o ll_llhttp.o),$(LLHTTP_LIBS))

test:
	test/run.sh

# Real clients (curl, wrk, h2load, ab, hey, Python, node, Chromium) drive the balancer, and the chat page in Chromium;
# `deploy/setup.sh clients` has them.
clients: all
	test/clients/run.py
# Tests with the numbers of a busy day, one after the other, with their figures; minutes. `make soak SOAK=lb_memory`: some.
soak: all $(BUILD)/bench/chat_fanout
	python3 test/support/run_integration.py --jobs 1 --timeout 1200 --show $(addprefix --only ,$(SOAK)) test/soak/*_soak.py

# The option and metric tables of the READMEs, from the programs themselves.
docs: all
	deploy/docs.py

# What deploy/local.sh and demo.sh keep in build/ is data of a running system, not a build product.
clean:
	@mkdir -p build
	find build -mindepth 1 -maxdepth 1 ! -name local ! -name demo -exec rm -rf {} +
	rm -rf lb/lb backend/backend loadgen/loadgen bench/fixture_server bench/simulate/simulate bench/pick_cost

PREFIX ?= /usr/local
install: all
	install -D -m 755 lb/lb $(DESTDIR)$(PREFIX)/sbin/dlb-lb
	install -D -m 755 backend/backend $(DESTDIR)$(PREFIX)/sbin/dlb-backend
	install -D -m 755 loadgen/loadgen $(DESTDIR)$(PREFIX)/bin/dlb-loadgen

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
