# SPDX-License-Identifier: Apache-2.0
"""The cases, each a way round. Importing this package fills doorcheck.trial.CASES."""

from doorcheck.cases import addresses, life, names, protocols, requests  # noqa: F401
