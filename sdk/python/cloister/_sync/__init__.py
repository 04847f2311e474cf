# SPDX-License-Identifier: Apache-2.0
# Generated from _async/__init__.py by tools/sdk_sync.py: do not edit.
