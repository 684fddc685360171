// Libraries, functions and pipelines that are made while the client does something else.

#import "../support.h"
#import "device.h"
#import "library.h"
#import "pipeline.h"
#import "report.h"
#include "worker.h"

struct creation {
    id (*create)(const struct creation *, NSError **);
    id maker, first, second;
    BOOL reflects;  // the handler takes a reflection, too
    void *handler;
};

static void carry_out(void *argument)
{
    struct creation *creation = argument;
    prepare_thread();
    NSAutoreleasePool *pool = [NSAutoreleasePool new];
    NSError *error = nil;
    id made = creation->create(creation, &error);
    if (creation->reflects)
        call_block(creation->handler, void (*)(void *, id, id, id), made, nil, error);
    else
        call_block(creation->handler, void (*)(void *, id, id), made, error);
    [made release];
    [creation->maker release];
    [creation->first release];
    [creation->second release];
    free(creation);
    [pool release];
}

static void carry_out_elsewhere(struct creation creation)
{
    if (!creation.handler) {
        report(@"what is made while the client does something else needs a handler to be given to");
        return;
    }
    struct creation *kept = malloc(sizeof *kept);
    *kept = creation;
    [kept->maker retain];
    [kept->first retain];
    [kept->second retain];
    struct worker *worker = worker_new();
    worker_do(worker, carry_out, kept);
    worker_end(worker);
}

static id create_library(const struct creation *creation, NSError **error)
{
    return [SMLibrary newWithDevice:creation->maker source:creation->first options:creation->second error:error];
}

static id create_function(const struct creation *creation, NSError **error)
{
    return [(SMLibrary *)creation->maker newFunctionWithName:creation->first
                                              constantValues:creation->second
                                                       error:error];
}

static id create_pipeline(const struct creation *creation, NSError **error)
{
    return [SMPipeline newWithDevice:creation->maker descriptor:creation->first error:error];
}

@implementation SMDevice (Asynchronous)

- (void)newLibraryWithSource:(NSString *)source options:(MTLCompileOptions *)options completionHandler:(void *)handler
{
    NSString *copy = [source copy];
    MTLCompileOptions *used = [[MTLCompileOptions check:options] copy];
    carry_out_elsewhere((struct creation){create_library, self, copy, used, NO, handler});
    [copy release];
    [used release];
}

- (void)createPipeline:(MTLComputePipelineDescriptor *)descriptor reflects:(BOOL)reflects handler:(void *)handler
{
    carry_out_elsewhere((struct creation){create_pipeline, self, descriptor, nil, reflects, handler});
}

- (void)createPipelineOf:(SMFunction *)function reflects:(BOOL)reflects handler:(void *)handler
{
    MTLComputePipelineDescriptor *descriptor = [MTLComputePipelineDescriptor new];
    [descriptor setComputeFunction:function];
    [self createPipeline:descriptor reflects:reflects handler:handler];
    [descriptor release];
}

- (void)newComputePipelineStateWithFunction:(SMFunction *)function completionHandler:(void *)handler
{
    [self createPipelineOf:function reflects:NO handler:handler];
}

- (void)newComputePipelineStateWithFunction:(SMFunction *)function
                                    options:(NSUInteger)options
                          completionHandler:(void *)handler
{
    [self createPipelineOf:function reflects:YES handler:handler];
}

- (void)newComputePipelineStateWithDescriptor:(MTLComputePipelineDescriptor *)descriptor
                                      options:(NSUInteger)options
                            completionHandler:(void *)handler
{
    MTLComputePipelineDescriptor *copy = [[MTLComputePipelineDescriptor check:descriptor] copy];
    [self createPipeline:copy reflects:YES handler:handler];
    [copy release];
}

@end

@implementation SMLibrary (Asynchronous)

- (void)newFunctionWithName:(NSString *)name
             constantValues:(MTLFunctionConstantValues *)values
          completionHandler:(void *)handler
{
    NSString *copy = [name copy];
    MTLFunctionConstantValues *used = [[MTLFunctionConstantValues check:values] copy];
    carry_out_elsewhere((struct creation){create_function, self, copy, used, NO, handler});
    [copy release];
    [used release];
}

@end
