#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
snowflakectl id
snowflakectl id -n 3 --agent my-program | snowflakectl decode
