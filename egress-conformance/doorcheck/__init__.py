# SPDX-License-Identifier: Apache-2.0
"""doorcheck: tries to leave a sandbox by every way round, and asks a fake internet what arrived."""
