PYTHON ?= python3

.PHONY: demo test test-all lint serve gpu upgrade
demo test test-all lint serve gpu upgrade:
	@$(PYTHON) infra/bootstrap.py $@ $(ARGS)
