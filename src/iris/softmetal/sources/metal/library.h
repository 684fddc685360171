// Kernels, from their text to functions.
#pragma once

#include "../msl/msl.h"
#include "metal.h"
#import "object.h"

@interface MTLCompileOptions : SMObject <NSCopying> {
@public
    NSInteger fastMathEnabled, mathMode, preserveInvariance, allowReferencingUndefinedSymbols;
    NSUInteger languageVersion, libraryType, optimizationLevel, compileSymbolVisibility, mathFloatingPointFunctions,
        maxTotalThreadsPerThreadgroup;
    NSDictionary *preprocessorMacros;
    NSString *installName;
}
@end

@interface MTLFunctionConstantValues : SMObject <NSCopying> {
@public
    NSMutableDictionary *values;  // of each name or index
}
@end

@interface MTLFunctionConstant : SMObject {
@public
    NSString *name;
    NSUInteger type, index;
}
@end

@interface MTLFunctionDescriptor : SMObject <NSCopying> {
@public
    NSString *name, *specializedName;
    MTLFunctionConstantValues *constantValues;
    NSUInteger options;
}
@end

@interface SMLibrary : SMDeviceObject <MTLLibrary> {
@private
    msl_library *library;
    NSString *installName;
    NSUInteger type;
}
+ (id)newWithDevice:(SMDevice *)owner
             source:(NSString *)source
            options:(MTLCompileOptions *)options
              error:(NSError **)error;
+ (id)newWithDevice:(SMDevice *)owner data:(NSData *)data error:(NSError **)error;
+ (id)newWithDevice:(SMDevice *)owner path:(NSString *)path error:(NSError **)error;
- (id)initWithDevice:(SMDevice *)owner library:(msl_library *)made;
- (id)newFunctionWithName:(NSString *)name
           constantValues:(MTLFunctionConstantValues *)values
                    error:(NSError **)error;
- (NSData *)libraryDataContents;
@end

@interface SMFunction : SMDeviceObject <MTLFunction> {
@private
    msl_library *library;
    const msl_function *function;
}
// The library becomes the function's.
- (id)initWithDevice:(SMDevice *)owner library:(msl_library *)owned function:(const msl_function *)found;
- (const msl_function *)function;
- (NSString *)name;
// Of what it is made of.
- (NSString *)fingerprint;
@end
