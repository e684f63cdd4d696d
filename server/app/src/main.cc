#include "foreshock/server/app/command_line.h"

int main(int argc, char** argv) { return foreshock::app::RunServer(argc, argv); }
