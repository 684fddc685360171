// A library as bytes that another process can open.
#pragma once

#include "../msl/msl.h"
#import <Foundation/Foundation.h>

NSData *new_data_of_library(const msl_library *library);
msl_library *library_of_data(NSData *data, char **error);
