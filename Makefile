PYTHON ?= python3

.PHONY: demo test lint serve
demo test lint serve:
	@$(PYTHON) infra/bootstrap.py $@ $(ARGS)
