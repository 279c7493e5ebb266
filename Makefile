PYTHON ?= python3

.PHONY: demo test faults lint serve
demo test faults lint serve:
	@$(PYTHON) infra/bootstrap.py $@ $(ARGS)
