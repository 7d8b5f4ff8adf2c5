/* The subcommands, one file each, named after them; called by main with the arguments that follow
 * the name. Each returns the program's exit code. */
#ifndef OUTRIDER_APPS_COMMANDS_H
#define OUTRIDER_APPS_COMMANDS_H

int command_run(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_compare(int argc, char **argv);
int command_eval(int argc, char **argv);
int command_devices(int argc, char **argv);
int command_inspect(int argc, char **argv);
int command_measure(int argc, char **argv);
int command_simulate(int argc, char **argv);
int command_selftest(int argc, char **argv);
int command_tune(int argc, char **argv);

#endif
