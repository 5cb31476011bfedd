#!/bin/sh
# Makes the role of servers, which dvt migrate --app-role then gives its rights. PostgreSQL runs this once.
set -eu
password=$(cat /run/dvt/store-password)
psql --set ON_ERROR_STOP=1 --username owner --dbname dvt --command "CREATE ROLE dvt LOGIN PASSWORD '$password'"
