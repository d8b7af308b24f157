# The usual commands in one place; `make help` lists them. CMake does the work.
SHELL := /bin/bash
BUILD := build
PREFIX ?= /usr/local

.PHONY: all cuda test quickstart install sanitize format check clean help

all: $(BUILD)/build.ninja ## build build/haul (the default)
	cmake --build $(BUILD) --target haul

# The first configuration installs what is missing; later ones are ninja's business.
$(BUILD)/build.ninja:
	scripts/setup
	cmake -S . -B $(BUILD) -G Ninja

cuda: $(BUILD)/build.ninja ## build the plugin for NVIDIA GPUs (--device cuda) too; needs nvcc
	cmake -S . -B $(BUILD) -DHAUL_WITH_CUDA=ON
	cmake --build $(BUILD) --target haul haul_cuda

test: ## install what is missing, build, run the tests and checks
	scripts/setup test
	scripts/test $(BUILD)

sanitize: ## run the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	scripts/setup
	scripts/test $(BUILD)-sanitize -DHAUL_SANITIZE=ON

quickstart: all ## train a small model and look at it; TEXT=my.txt chooses the text
	scripts/quickstart "$(TEXT)"

install: all ## install below PREFIX (/usr/local)
	cmake --install $(BUILD) --prefix "$(PREFIX)"

check: ## layout, include direction, headers, lengths
	scripts/check

format: ## lay out the sources as .clang-format says
	scripts/check-format --fix

clean: ## remove what was built
	rm -rf $(BUILD) $(BUILD)-sanitize

help: ## list these commands
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20
