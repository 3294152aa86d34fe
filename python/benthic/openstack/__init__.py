"""Drivers for OpenStack: volumes in Cinder (:mod:`.cinder`) and images in Glance (:mod:`.glance`).

The drivers run the program ``benthic`` with ``--json``. They use neither the native module of this
package nor a running service of their own.
"""
