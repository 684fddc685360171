#pragma once

#import "encoder.h"

@interface SMBlitEncoder : SMEncoder <MTLBlitCommandEncoder>
@end
