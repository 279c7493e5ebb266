PYTHON ?= python3

.PHONY: demo test test-all lint serve upgrade
demo test test-all lint serve upgrade:
	@$(PYTHON) infra/bootstrap.py $@ $(ARGS)
